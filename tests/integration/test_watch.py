"""The console in a real browser, Prometheus and Alertmanager beside it: what people see, do, and are told.

It fills the shop, which other tests on the same stack have for themselves: it comes last.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer
from playwright.sync_api import Browser, expect
from tenacity import RetryError

from infra.dashboards.panels import DASHBOARDS, Dashboard
from pipelines.metrics.declared import declared
from tests.integration.browser import Tab, chromium
from tests.integration.stack import CHECKOUT, Stack, wait_until

pytestmark = pytest.mark.process
PICTURES = CHECKOUT / ".lakehouse/pictures"
# Services of the stack as it is usually; the others are of profiles that aren't chosen.
OURS = ("mirror", "capture", "verifier", "checker", "publisher", "lineage", "console")
PAGES = ("/", "/tables", "/tables/shop.orders", "/streams", "/letters", "/lineage?at=shop.orders", "/quality",
         "/operations", "/alerts", "/sql")  # fmt: skip
SHORT_NAMES = {"/": "overview"}
Enter = Callable[..., Tab]


@pytest.fixture(scope="module")
def observed(stack: Stack) -> Stack:
    """The stack, with a small shop in it, and somebody who watches."""
    for service in ("prometheus", "alertmanager", "console"):
        stack.start(service)
    stack.run_shop("load", "--scale", "0.01")
    stack.lakehouse("wait")
    return stack


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def enter(observed: Stack, browser: Browser) -> Iterator[Enter]:
    tabs: list[Tab] = []

    def entered(role: str = "operator", **how: Any) -> Tab:
        password = observed.setting(f"CONSOLE_{role.upper()}_PASSWORD")
        tabs.append(Tab(browser, f"http://127.0.0.1:{observed.setting('CONSOLE_PORT')}", role, password, **how))
        return tabs[-1]

    yield entered
    for tab in tabs:
        tab.close()


def prometheus(stack: Stack, path: str, **asked: str) -> Any:
    url = f"http://127.0.0.1:{stack.setting('PROMETHEUS_PORT')}/api/v1/{path}"
    return httpx.get(url, params=asked, trust_env=False, timeout=30).raise_for_status().json()["data"]


def series(stack: Stack, query: str) -> list[dict[str, str]]:
    return [each["metric"] for each in prometheus(stack, "query", query=query)["result"]]


def test_prometheus_sees_every_process_and_what_is_declared_for_it(observed: Stack) -> None:
    wait_until(lambda: {each["job"] for each in series(observed, "up == 1")} >= set(OURS))
    for job in OURS:
        text = observed.metrics(job)
        served = set(re.findall(r"^# HELP ((?:lakehouse|lineage)_\w+)", text, re.MULTILINE))
        # Of what nobody has asked for yet the text says nothing but in which tables it would be.
        wanted = {name for name, each in declared().items() if job in each.served_by}
        assert served == wanted, job
    wait_until(lambda: {"table": "shop.orders"} in [
        {"table": each.get("table", "")} for each in series(observed, "lakehouse_table_freshness_seconds")
    ])  # fmt: skip
    by_table = '{__name__=~"lakehouse_table_.*",table="shop.orders"}'
    wait_until(lambda: {each["__name__"] for each in series(observed, by_table)} >= {
        "lakehouse_table_records_total", "lakehouse_table_commits_total", "lakehouse_table_visible_lag_seconds",
        "lakehouse_table_stage_seconds_total", "lakehouse_table_held", "lakehouse_table_behind_offsets",
        "lakehouse_table_rows", "lakehouse_table_files", "lakehouse_table_snapshots", "lakehouse_table_metadata_bytes",
        "lakehouse_table_query_seconds", "lakehouse_table_limit",
    })  # fmt: skip


@pytest.mark.parametrize("shown", DASHBOARDS, ids=lambda shown: shown.uid)
def test_every_panel_of_a_dashboard_has_data_or_a_reason(observed: Stack, shown: Dashboard) -> None:
    queries = {
        (panel.title, legend): query.replace("$table", "shop.orders")
        for panel in shown.panels if panel.quiet is None for legend, query in panel.queries.items()
    }  # fmt: skip

    def empty() -> list[tuple[str, str]]:
        return [at for at, query in queries.items() if not prometheus(observed, "query", query=query)["result"]]

    try:
        wait_until(lambda: not empty(), 120)
    except RetryError:
        pytest.fail(f"no data: {empty()}")
    # What may be empty can be asked all the same.
    for panel in shown.panels:
        for query in panel.queries.values():
            prometheus(observed, "query", query=query.replace("$table", "shop.orders"))


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (1280, "light")])
def test_every_page_is_whole_for_everybody(enter: Enter, width: int, theme: str) -> None:
    tab = enter("operator", width=width, theme=theme)
    wrong: dict[str, Any] = {}
    for path in PAGES:
        tab.open(path)
        found = [*tab.said, *tab.barriers(), *([f"{tab.overflow()} pixels too wide"] if tab.overflow() > 0 else [])]
        tab.said.clear()
        name = SHORT_NAMES.get(path, re.sub(r"\W+", "-", path).strip("-"))
        tab.picture(PICTURES, f"{name}-{theme}-{width}")
        if found:
            wrong[path] = found
    assert wrong == {}, json.dumps(wrong, indent=1)


def test_a_late_table_leads_to_its_cause(observed: Stack, enter: Enter) -> None:
    observed.sql("CREATE TABLE lagging (id int PRIMARY KEY, note text)", "INSERT INTO lagging VALUES (1, 'a')")
    observed.assert_equal("lagging")

    def told() -> bool:
        labels = [alert["labels"] for alert in alerts(observed)]
        return any(label["alertname"] == "TableHeld" and label["table"] == "shop.lagging" for label in labels)

    observed.sql("ALTER TABLE lagging RENAME COLUMN note TO remark")
    wait_until(lambda: "shop.public.lagging" in observed.lakehouse("table", "list")["held"])
    tab = enter("viewer")
    tab.open("/")
    row = tab.page.get_by_role("row", name=re.compile("shop.lagging"))
    expect(row).to_contain_text("held", timeout=60_000)
    row.get_by_role("link").click()
    expect(tab.page.get_by_role("heading", level=1)).to_contain_text("shop.lagging")
    expect(tab.page.get_by_role("status").first).to_contain_text("the spec freezes the rename of remark")
    wait_until(told)
    tab.open("/alerts")
    expect(tab.page.get_by_text("shop.lagging is held")).to_be_visible(timeout=60_000)
    expect(tab.page.get_by_text("infra/runbooks/table-held.md")).to_be_visible()
    observed.sql("ALTER TABLE lagging RENAME COLUMN remark TO note")
    observed.assert_equal("lagging")
    wait_until(lambda: not told())
    # Whoever looks at the overview sees it end, without loading the page.
    tab.open("/")
    expect(tab.page.get_by_role("row", name=re.compile("shop.lagging"))).to_have_count(0, timeout=60_000)


def alerts(stack: Stack) -> list[dict[str, Any]]:
    url = f"http://127.0.0.1:{stack.setting('ALERTMANAGER_PORT')}/api/v2/alerts"
    found: list[dict[str, Any]] = httpx.get(url, trust_env=False, timeout=30).raise_for_status().json()
    return found


def test_a_dead_letter_is_put_back_and_the_lake_is_equal(observed: Stack, enter: Enter) -> None:
    stack = observed
    stack.sql("CREATE TABLE clinic (id bigint PRIMARY KEY, note text)", "INSERT INTO clinic VALUES (1, 'a'), (2, 'b')")
    stack.assert_equal("clinic")
    consumer = Consumer({"bootstrap.servers": stack.endpoints["kafka_bootstrap"], "group.id": "clinic",
                         "auto.offset.reset": "earliest"})  # fmt: skip
    consumer.subscribe(["shop.public.clinic"])
    records = [record for record in consumer.consume(2, 60) if record.error() is None]
    consumer.close()
    first = next(record for record in records if (record.key() or b"")[-1] == 2)
    stack.produce("clinic", b"broken", key=bytes(first.key() or b""), partition=first.partition() or 0)
    stack.lakehouse("wait")
    stack.sql("UPDATE clinic SET note = 'c' WHERE id = 1")
    stack.lakehouse("wait")
    assert not stack.lakehouse("verify", "clinic", ok=(1,))["equal"]
    wait_until(lambda: any(a["labels"].get("topic") == "shop.public.clinic" for a in alerts(stack)))

    viewer = enter("viewer")
    viewer.open("/letters?topic=shop.public.clinic")
    expect(viewer.page.get_by_role("link", name=re.compile("shop.public.clinic:"))).to_have_count(2)
    viewer.page.get_by_role("row", name=re.compile("not_avro")).last.get_by_role("link").click()
    expect(viewer.page.get_by_text("The record itself is shown to operators.")).to_be_visible()
    expect(viewer.page.get_by_role("button", name="Give it up")).to_have_count(0)

    operator = enter("operator")
    operator.open("/letters?topic=shop.public.clinic&reason=not_avro")
    operator.page.get_by_role("link", name=re.compile("shop.public.clinic:")).click()
    expect(operator.page.get_by_text("doesn't decode")).to_be_visible()
    form = operator.page.locator("form", has=operator.page.get_by_role("button", name="Give it up"))
    form.get_by_label("Why").fill("sent by a test")
    form.get_by_role("button").click()
    expect(operator.page.get_by_role("status").first).to_contain_text("1 letters were given up")
    operator.open("/letters?topic=shop.public.clinic&reason=parked")
    expect(operator.page.get_by_role("heading", name=re.compile("All 1 of"))).to_be_visible(timeout=60_000)
    form = operator.page.locator("form", has=operator.page.get_by_role("button", name="Put them back"))
    form.get_by_label("Why").fill("what it waited behind is given up")
    form.get_by_role("button").click()
    expect(operator.page.get_by_role("status").first).to_contain_text("1 letters were put back")
    stack.assert_equal("clinic")
    trail = stack.lakehouse("audit")["actions"]
    mine = [(each["action"], each["who"], each["because"]) for each in trail if each["who"] == "operator@console"]
    assert mine == [("replay", "operator@console", "what it waited behind is given up"),
                    ("discard", "operator@console", "sent by a test")]  # fmt: skip
    wait_until(lambda: not any(a["labels"].get("topic") == "shop.public.clinic" for a in alerts(stack)))
    operator.open("/alerts")
    past = operator.page.get_by_role("row", name=re.compile("DeadLetters shop.public.clinic"))
    expect(past).to_be_visible(timeout=180_000)


def test_a_role_sees_what_it_may(observed: Stack, enter: Enter) -> None:
    """A viewer reads what contracts show ``restricted``; by the contract of ``shown`` in tests.integration.stack."""
    observed.sql("CREATE TABLE IF NOT EXISTS shown (id bigint PRIMARY KEY, mail text, phone text, state text)",
                 "INSERT INTO shown VALUES (81, 'console@private', '11', 'open') ON CONFLICT DO NOTHING")  # fmt: skip
    observed.assert_equal("shown")
    wait_until(lambda: observed.catalog("restricted").table_exists("restricted_shop.shown"))
    wait_until(lambda: observed.lakehouse("table", "show", "shown")["published"][0]["behind_seconds"] == 0)

    def ask(tab: Tab, sql: str) -> str:
        tab.open("/sql")
        tab.page.get_by_label("Query").fill(sql)
        tab.page.get_by_role("button", name="Run").click()
        expect(tab.page.locator("#answer")).not_to_contain_text("No query yet", timeout=60_000)
        return tab.page.locator("#answer").inner_text()

    viewer, operator = enter("viewer"), enter("operator")
    whole = "SELECT id, mail FROM lake.shop.shown WHERE id = 81"
    assert "may not read this table" in ask(viewer, whole)
    assert "console@private" in ask(operator, whole)
    shown = ask(viewer, "SELECT * FROM lake.restricted_shop.shown WHERE id = 81")
    assert "81" in shown
    assert "console@private" not in shown
    assert "only queries that read" in ask(operator, "DELETE FROM lake.shop.shown")
    assert "disabled" in ask(operator, "SELECT * FROM read_text('/etc/passwd')")
    assert "read as analyst" in ask(operator, "SELECT count(*) FROM lake.shop.orders")
    # One number is a table; a number by something else is a chart as well, in either theme.
    expect(operator.page.locator("#answer canvas")).to_have_count(0)
    ask(operator, "SELECT * FROM (VALUES ('placed', 2), ('paid', 3)) AS t(status, orders)")
    expect(operator.page.locator("#answer canvas")).to_be_visible()
    operator.page.get_by_role("button", name="Light / dark").click()
    expect(operator.page.locator("#answer canvas")).to_have_count(1)
    operator.picture(PICTURES, "sql-chart")


def test_an_admin_has_the_mirror_killed_and_it_heals(observed: Stack, enter: Enter) -> None:
    observed.sql("CREATE TABLE rehearsed (id int PRIMARY KEY)", "INSERT INTO rehearsed VALUES (1)")
    observed.assert_equal("rehearsed")
    before = observed.processes("mirror")[0].pid
    admin = enter("admin")
    admin.open("/operations")
    form = admin.page.locator("form", has=admin.page.get_by_role("button", name="Switch on"))
    form.get_by_label("Fault").select_option("before-merge")
    form.get_by_label("A failpoint will").select_option("kill")
    form.get_by_label("Why").fill("a rehearsal by a test")
    form.get_by_role("button", name="Switch on").click()
    expect(admin.page.get_by_role("status").first).to_contain_text("The fault is on")
    observed.sql("INSERT INTO rehearsed VALUES (2)")
    viewer = enter("viewer")
    viewer.open("/operations")
    expect(viewer.page.get_by_role("row", name=re.compile("^before-merge "))).to_contain_text("reached")
    expect(viewer.page.get_by_role("button", name="Switch on")).to_have_count(0)
    observed.assert_equal("rehearsed")
    assert observed.processes("mirror")[0].pid != before
    form.get_by_label("Fault").select_option("before-merge")
    form.get_by_label("Why").fill("the rehearsal is over")
    form.get_by_role("button", name="Switch off").click()
    expect(admin.page.get_by_role("row", name=re.compile("^before-merge "))).to_contain_text("off")
    trail = [each for each in observed.lakehouse("audit")["actions"] if each["action"] == "fault"]
    assert [(each["target"], each["who"], each["because"], each["outcome"]) for each in trail] == [
        ("before-merge", "admin@console", "the rehearsal is over", "done"),
        ("before-merge", "admin@console", "a rehearsal by a test", "done"),
    ]


@pytest.mark.parametrize(("width", "theme"), [(380, "dark"), (1280, "light")])
def test_data_docs_are_shown_as_they_are_without_scripts_and_other_hosts(
    observed: Stack, enter: Enter, width: int, theme: str
) -> None:
    """By the contract of ``audited`` in tests.integration.stack; two of its promises are broken."""
    observed.sql("CREATE TABLE IF NOT EXISTS audited (id bigint PRIMARY KEY, mail text, state text)",
                 "INSERT INTO audited VALUES (81, 'a@b', 'open'), (82, NULL, 'x') ON CONFLICT DO NOTHING")  # fmt: skip
    observed.assert_equal("audited")
    observed.own("check", "audited", ok=(0, 1))
    tab = enter("viewer", width=width, theme=theme)
    wait_until(lambda: _is_known(tab, "/quality/shop.audited/docs"))
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.open("/quality")
    tab.page.get_by_role("row", name=re.compile("shop.audited")).get_by_role("link", name="Data Docs").click()
    expect(tab.page.get_by_role("heading", level=1)).to_have_text("shop.audited")
    expect(tab.page.get_by_text("values must belong to this set")).to_be_visible()
    expect(tab.page.get_by_text("Evaluated Expectations")).to_be_visible()
    assert [url for url in asked if not url.startswith(tab.base)] == []
    tab.picture(PICTURES, f"data-docs-{theme}-{width}")
    assert (tab.said, tab.overflow()) == ([], 0)
    tab.without_policy()
    assert tab.barriers() == []
    # Whoever goes on from there is still signed in.
    tab.page.get_by_role("link", name="Quality").click()
    expect(tab.page.get_by_role("heading", level=1)).to_have_text("Quality")
    tab.page.locator("[hx-get='/quality/history'] a").first.click()
    expect(tab.page.get_by_text("Evaluated Expectations")).to_be_visible()


def test_rows_are_shown_as_they_were(observed: Stack, enter: Enter) -> None:
    observed.sql("CREATE TABLE diary (id int PRIMARY KEY, word text)", "INSERT INTO diary VALUES (1, 'before')")
    observed.assert_equal("diary")
    observed.sql("UPDATE diary SET word = 'after'", "ALTER TABLE diary ADD COLUMN mood text")
    observed.sql("INSERT INTO diary VALUES (2, 'later', 'good')")
    observed.assert_equal("diary")
    tab = enter("operator")
    wait_until(lambda: _is_known(tab, "/tables/shop.diary"))
    tab.open("/tables/shop.diary")
    tab.page.get_by_role("button", name="Show rows").click()
    expect(tab.page.locator("#rows")).to_contain_text("after", timeout=60_000)
    expect(tab.page.locator("#metadata")).to_contain_text("+ mood string")
    tab.page.get_by_role("button", name="Rows then").last.click()
    expect(tab.page.locator("#rows")).to_contain_text("as of snapshot", timeout=60_000)
    expect(tab.page.locator("#rows")).not_to_contain_text("after")
    tab.page.get_by_label("Readers filter by").select_option("word")
    tab.page.get_by_role("button", name="Advise on its layout").click()
    expect(tab.page.locator("#advice")).to_contain_text("rows in", timeout=60_000)


def _is_known(tab: Tab, path: str) -> bool:
    answer = tab.page.request.get(tab.page.url.split("/", 3)[0] + "//" + tab.page.url.split("/", 3)[2] + path)
    return answer.ok


def test_what_is_down_is_said_and_the_rest_works(observed: Stack, enter: Enter) -> None:
    tab = enter("operator")
    with observed.frozen("prometheus"):
        tab.open("/")
        expect(tab.page.locator("main")).to_contain_text("prometheus can't be seen", timeout=60_000)
        tab.open("/tables")
        expect(tab.page.get_by_role("link", name="shop.orders")).to_be_visible()
    with observed.frozen("lineage"):
        tab.said.clear()
        tab.page.goto(tab.page.url.replace("/tables", "/lineage?at=shop.orders"))
        expect(tab.page.locator("#graph-said")).to_contain_text("The lineage service", timeout=60_000)
