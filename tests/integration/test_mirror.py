"""The whole path on real servers: PostgreSQL to Iceberg, whatever is killed on the way."""

import random
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer

from pipelines.kafka.ranges import offset_count
from pipelines.ledger.entries import commit_entries
from pipelines.limits import Limits
from pipelines.mirror.jit import BOTH_COMPILERS, QUICK_COMPILER
from services.operations.dead_letters.letters import Letter, LetterFilter, Letters
from services.operations.dead_letters.replay import replay
from services.stack.records import Decoder
from tests.integration.guides import RUNBOOKS, follow
from tests.integration.stack import WAIT_SECONDS, Stack, wait_until

pytestmark = pytest.mark.process

LIMITS = Limits()
SERVERS = ["source-db", "metadata-db", "object-store", "kafka", "schema-registry", "connect", "catalog", "capture"]
SHOP_TABLES = {
    "customers", "addresses", "products", "orders", "order_items", "payments", "inventory", "subscriptions",
    "usage_events",
}  # fmt: skip


def _load(stack: Stack, scale: str) -> None:
    stack.run_shop("load", "--scale", scale)


def _snapshots(stack: Stack) -> dict[str, int]:
    return {table["table"]: table["snapshots"] for table in stack.lakehouse("table", "list")["tables"]}


def test_snapshot_then_live_changes(stack: Stack) -> None:
    _load(stack, "0.05")
    with stack.workload():
        stack.lakehouse("wait")
        stack.moves_on(200)
        during = stack.lakehouse("verify")
        assert during["equal"], "verify must be right while the workload runs"
    report = stack.assert_equal()
    rows = {table["table"]: table["rows_source"] for table in report["tables"]}
    assert all(rows[f"public.{name}"] > 0 for name in SHOP_TABLES)


def test_another_engine_counts_the_same(stack: Stack) -> None:
    stack.lakehouse("wait")
    with stack.source() as source:
        expected = source.execute("SELECT count(*), sum(quantity) FROM order_items").fetchone()
    items = stack.catalog().load_table("shop.order_items").scan(selected_fields=("quantity",)).to_arrow()
    assert (items.num_rows, sum(items["quantity"].to_pylist())) == expected


def test_types_of_the_shop_are_true_types(stack: Stack) -> None:
    types = {}
    for table in SHOP_TABLES:
        shown = stack.lakehouse("table", "show", table)
        types |= {(table, column["name"]): column["type"] for column in shown["columns"]}
    found = set(types.values())
    for expected in ("long", "string", "date", "timestamp", "timestamptz", "uuid", "binary", "decimal(12, 2)"):
        assert expected in found, f"no column of type {expected} in {sorted(found)}"
    assert any(kind.startswith("list<") for kind in found)


def test_a_new_table_appears_without_a_restart(stack: Stack) -> None:
    stack.sql(
        "CREATE TABLE wishlist (id bigint PRIMARY KEY, note text)",
        "INSERT INTO wishlist SELECT g, 'wish ' || g FROM generate_series(1, 500) g",
        "UPDATE wishlist SET note = 'changed' WHERE id % 3 = 0",
        "DELETE FROM wishlist WHERE id % 5 = 0",
    )
    report = stack.assert_equal("wishlist")
    assert report["tables"][0]["rows_lake"] == 400


# While the workload writes, which doesn't know of these columns; and what is killed then.
ALTERATIONS: list[tuple[str, list[str]]] = [
    ("ALTER TABLE {table} ADD COLUMN extra_{cycle} int NOT NULL DEFAULT 7, ADD COLUMN less int", SERVERS[1:]),
    ("ALTER TABLE {table} RENAME COLUMN extra_0 TO sooner", ["mirror"]),
    ("ALTER TABLE {table} DROP COLUMN less, ALTER COLUMN sooner SET DEFAULT 8", []),
]


# This one and the next while the stack has few tables: each batch, wait and comparison is of all that there are.
@pytest.mark.slow
def test_everything_is_killed_at_random_moments_while_columns_change(stack: Stack) -> None:
    """And comes back by itself, without `make up`. Each alone: tests/chaos/test_servers.py; the mirror fifteen times:
    tests/chaos/test_drivers.py.
    """
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    moments = random.Random(seed)

    def kill(servers: list[str]) -> None:
        for server in servers:
            print(f"killing {server}")
            stack.make("kill", f"s={server}")

    with stack.workload(rate=5, survives=False):
        stack.moves_on()
        kill(SERVERS[:1])
    table = moments.choice(["orders", "order_items", "customers"])
    with stack.workload(seed=seed):
        for cycle, (alter, servers) in enumerate(ALTERATIONS):
            stack.moves_on(moments.randrange(1, 200))
            stack.sql(alter.format(table=table, cycle=cycle))
            kill(servers)
        stack.moves_on()
    stack.assert_equal()


@pytest.mark.slow
def test_a_lost_checkpoint_makes_a_backlog_that_is_caught_up_in_a_gear_of_its_own(stack: Stack) -> None:
    stack.sql("CREATE TABLE backlog (id bigint PRIMARY KEY, note text)",
              "INSERT INTO backlog SELECT g, 'a' FROM generate_series(1, 45000) g")  # fmt: skip
    stack.assert_equal("backlog")
    environment, said = stack.folder / ".env", stack.said("mirror")
    before = environment.read_text()
    changed = re.sub(r"(?m)^MAX_OFFSETS_PER_TRIGGER=.*$", "MAX_OFFSETS_PER_TRIGGER=20000", before)
    assert changed != before

    def told(event: str) -> list[dict[str, Any]]:
        return [line for line in said() if line["event"] == event]

    environment.write_text(changed)
    try:
        with _commits_nothing(stack, "after_loss"):
            stack.make("down")
            shutil.rmtree(stack.folder / ".lakehouse/data/mirror/checkpoint")
            stack.up()
        wait_until(lambda: len(told("started")) == 2)
        _fall_behind(stack, "UPDATE backlog SET note = 'b' WHERE id <= 1000",
                     "INSERT INTO backlog SELECT g, 'c' FROM generate_series(45001, 63000) g")  # fmt: skip
        wait_until(lambda: any(line["table"] == "shop.backlog" for line in told("maintained")))
    finally:
        environment.write_text(before)
    # Which is less than is asked of a table that is only followed.
    compacted = next(line for line in told("maintained") if line["table"] == "shop.backlog")
    assert (compacted["task"], compacted["why"]) == ("compact", "2% of its rows are deleted")
    assert [stack.lakehouse("table", "show", "backlog")[kind] for kind in ("data_files", "delete_files")] == [1, 0]
    stack.assert_equal("backlog")
    high, low = told("started")
    assert len(told("caught_up")) == 1
    assert high["backlog"] > 40_000 >= low["backlog"]
    assert [high["java_options"], low["java_options"]] == [BOTH_COMPILERS, QUICK_COMPILER]
    # With the setting that it had, and from its checkpoint this time.
    with _commits_nothing(stack, "after_restart"):
        stack.up()
    assert len(told("started")) == 3


@pytest.mark.slow
def test_what_has_piled_up_is_read_again_rather_than_kept(stack: Stack) -> None:
    stack.sql("CREATE TABLE pile (id bigint PRIMARY KEY, note text)", "INSERT INTO pile VALUES (1, 'a')",
              "CREATE TABLE beside (id bigint PRIMARY KEY)", "INSERT INTO beside VALUES (1)")  # fmt: skip
    stack.assert_equal("pile", "beside")
    _fall_behind(
        stack,
        f"INSERT INTO pile SELECT g, 'a' FROM generate_series(2, {LIMITS.cached_offsets}) g",
        "INSERT INTO beside SELECT g FROM generate_series(2, 3000) g",
        "UPDATE pile SET note = 'b' WHERE id % 10 = 0",
        "DELETE FROM pile WHERE id % 30 = 0",
        # Of a table that is new, and whose records at both ends have another schema than those between them.
        "CREATE TABLE layers (id bigint PRIMARY KEY, note text)",
        f"INSERT INTO layers SELECT g, 'a' FROM generate_series(1, {LIMITS.cached_offsets}) g",
        "ALTER TABLE layers ADD COLUMN depth int",
        "INSERT INTO layers SELECT g, 'b', g % 7 FROM generate_series(1000001, 1010000) g",
        "ALTER TABLE layers DROP COLUMN depth",
        "INSERT INTO layers SELECT g, 'c' FROM generate_series(2000001, 2005000) g",
    )
    stack.assert_equal("pile", "beside", "layers")
    snapshots = stack.catalog().load_table("shop.pile").snapshots()
    entries = commit_entries(s.summary.additional_properties for s in snapshots if s.summary is not None)
    assert max(offset_count(entry.offsets) for entry in entries) > LIMITS.cached_offsets, "it came in smaller batches"


@pytest.mark.slow
def test_a_live_batch_that_goes_on_as_it_was_isn_t_looked_at_first(stack: Stack) -> None:
    stack.sql(
        "CREATE TABLE steady (id bigint PRIMARY KEY, note text)",
        f"INSERT INTO steady SELECT g, 'a' FROM generate_series(1, {LIMITS.plain_offsets}) g",
    )
    stack.assert_equal("steady")

    def assumed(*statements: str) -> bool:
        said = stack.said("mirror")
        _fall_behind(stack, *statements)
        stack.assert_equal("steady")
        batches = [line for line in said() if line["event"] == "batch" and "shop.public.steady" in line["rows"]]
        assert sum(line["rows"]["shop.public.steady"] for line in batches) > LIMITS.plain_offsets
        return any("shop.public.steady" in line["assumed"] for line in batches)

    assert assumed("UPDATE steady SET note = 'b'", "DELETE FROM steady WHERE id % 10 = 0")
    assert not assumed(
        "UPDATE steady SET note = 'c'", "ALTER TABLE steady ADD COLUMN depth int", "UPDATE steady SET depth = id % 7"
    )


def test_truncate(stack: Stack) -> None:
    stack.sql(
        "CREATE TABLE shelf (id bigint PRIMARY KEY, note text)",
        "INSERT INTO shelf SELECT g, 'old' FROM generate_series(1, 300) g",
    )
    stack.assert_equal("shelf")
    stack.sql(
        "INSERT INTO shelf SELECT g, 'older' FROM generate_series(301, 400) g",
        "TRUNCATE shelf",
        "INSERT INTO shelf SELECT g, 'new' FROM generate_series(5, 50) g",
    )
    assert stack.assert_equal("shelf")["tables"][0]["rows_lake"] == 46


def test_a_table_that_is_truncated_before_its_first_row(stack: Stack) -> None:
    """What has no key yet isn't a table without a key."""
    said = stack.said("mirror")
    stack.sql("CREATE TABLE emptied (id bigint PRIMARY KEY, note text)", "TRUNCATE emptied")
    wait_until(lambda: any("shop.public.emptied" in line["rows"] for line in said() if line["event"] == "batch"))
    stack.sql("INSERT INTO emptied VALUES (1, 'a'), (2, 'b')", "UPDATE emptied SET note = 'c' WHERE id = 2")
    assert stack.assert_equal("emptied")["tables"][0]["rows_lake"] == 2


def test_unchanged_toast_values_stay(stack: Stack) -> None:
    big = "(SELECT string_agg(md5((g * 7 + i)::text), '') FROM generate_series(1, 500) i)"
    stack.sql(
        "CREATE TABLE archive (id bigint PRIMARY KEY, note text, doc jsonb, page text, raw bytea, tags text[],"
        " ids int[])",
        f"INSERT INTO archive SELECT g, 'a', to_jsonb({big}), {big}, decode({big}, 'hex'), ARRAY[{big}, NULL],"
        " (SELECT array_agg(i * g * 7919) FROM generate_series(1, 4000) i) FROM generate_series(1, 20) g",
    )
    stack.assert_equal("archive")
    stack.sql(
        "UPDATE archive SET note = 'b' WHERE id <= 10",
        "UPDATE archive SET page = page || 'x' WHERE id BETWEEN 5 AND 15",
        "UPDATE archive SET note = 'c' WHERE id BETWEEN 5 AND 15",
        "UPDATE archive SET id = id + 1000, note = 'moved' WHERE id IN (3, 7, 19)",
        "UPDATE archive SET id = id + 1000 WHERE id = 1003",
        "DELETE FROM archive WHERE id = 20",
    )
    stack.assert_equal("archive")


SCHEMA_CHANGES = [
    ("renamed", ["ALTER TABLE evolving RENAME COLUMN note TO title", "UPDATE evolving SET title = 'b' WHERE id = 1"]),
    ("NOT NULL added and dropped", [
        "ALTER TABLE evolving ALTER COLUMN title SET NOT NULL", "UPDATE evolving SET title = 'c' WHERE id = 2",
        "ALTER TABLE evolving ALTER COLUMN title DROP NOT NULL", "UPDATE evolving SET title = NULL WHERE id = 3",
    ]),
    ("added with a default", ["ALTER TABLE evolving ADD COLUMN age int NOT NULL DEFAULT 7"]),
    ("a default of the moment", [
        "UPDATE evolving SET age = 8 WHERE id < 9", "ALTER TABLE evolving ADD COLUMN seen timestamptz DEFAULT now()",
        "INSERT INTO evolving VALUES (1000, 'x', 2.5, 1)",
    ]),
    ("a default of each row's own", ["ALTER TABLE evolving ADD COLUMN token uuid DEFAULT gen_random_uuid()"]),
    ("widened", ["ALTER TABLE evolving ALTER COLUMN age TYPE bigint", "UPDATE evolving SET age = 2^40 WHERE id = 3"]),
    ("changed", ["ALTER TABLE evolving ALTER COLUMN price TYPE numeric(14,4), ALTER COLUMN age TYPE text"]),
    ("dropped and added again", ["ALTER TABLE evolving DROP COLUMN price, ADD COLUMN price date DEFAULT '2026-01-02'"]),
    ("dropped, two in one transaction", ["BEGIN; ALTER TABLE evolving DROP COLUMN age; INSERT INTO evolving (id) VALUES"
                                         " (2000); ALTER TABLE evolving DROP COLUMN token; COMMIT"]),
    ("another key", ["UPDATE evolving SET title = 'k' || id", "ALTER TABLE evolving DROP CONSTRAINT evolving_pkey, ADD"
                     " PRIMARY KEY (title)", "UPDATE evolving SET id = 1 WHERE id < 100",
                     "DELETE FROM evolving WHERE title = 'k5'", "INSERT INTO evolving (id, title) VALUES (1, 'new')"]),
    ("no key, then another", ["ALTER TABLE evolving DROP CONSTRAINT evolving_pkey",
                              "INSERT INTO evolving (id, title) VALUES (1, 'new')",
                              "DELETE FROM evolving WHERE title = 'new'",
                              "ALTER TABLE evolving ADD PRIMARY KEY (id, title)",
                              "DELETE FROM evolving WHERE title < 'k3'"]),
    ("another table of the same name", ["DROP TABLE evolving", "CREATE TABLE evolving (code text PRIMARY KEY, a int)",
                                        "INSERT INTO evolving VALUES ('a', 2), ('b', 3)"]),
    ("restored with its columns in another order", [
        "BEGIN; ALTER TABLE evolving RENAME TO older; CREATE TABLE evolving (a int, code text PRIMARY KEY);"
        " INSERT INTO evolving SELECT a, code FROM older; DROP TABLE older; COMMIT",
        "UPDATE evolving SET a = 4 WHERE code = 'b'",
    ]),
]  # fmt: skip


# The first ones two at a time: a comparison takes longer than what it compares.
STEPS = [SCHEMA_CHANGES[at : at + 2] for at in range(0, 10, 2)] + [[change] for change in SCHEMA_CHANGES[10:]]


@pytest.mark.parametrize("changes", STEPS, ids=[" and ".join(label for label, _ in step) for step in STEPS])
def test_a_table_follows_its_sources_schema(stack: Stack, changes: list[tuple[str, list[str]]]) -> None:
    if changes is STEPS[0]:
        stack.sql(
            "CREATE TABLE evolving (id bigint PRIMARY KEY, note text, price numeric(10,2))",
            "INSERT INTO evolving SELECT g, 'note ' || g, g / 4.0 FROM generate_series(1, 300) g",
        )
        stack.assert_equal("evolving")
    for _, statements in changes:
        stack.sql(*statements)
    stack.lakehouse("wait")
    # A snapshot of the table that was asked for comes when the connector has made it.
    wait_until(lambda: bool(stack.lakehouse("verify", "evolving", ok=(0, 1))["equal"]))
    stack.assert_equal("evolving")


def test_the_history_of_a_schema_is_told(stack: Stack) -> None:
    changes = stack.lakehouse("schema", "history", "evolving")["changes"]
    assert changes[0]["done"] == ["rename note to title"]
    assert any("add age int default 7" in change["done"] for change in changes)
    assert all(change["at"] and change["lsn"] for change in changes)


def test_a_table_without_a_key_is_a_multiset(stack: Stack) -> None:
    big = "(SELECT string_agg(md5((g * 7 + i)::text), '') FROM generate_series(1, 300) i)"
    stack.sql(
        "CREATE TABLE journal (n int, ratio float8, note text, page text, doc jsonb, seen timestamptz, tags text[])",
        "INSERT INTO journal SELECT g, ('{NaN,-0,0,0.1,NULL}'::float8[])[1 + g % 5], CASE WHEN g % 3 > 0 THEN 'a' END,"
        f" CASE WHEN g % 2 = 0 THEN {big} END, to_jsonb({big}), '2026-01-02 03:04:05', ARRAY['x', NULL]"
        " FROM generate_series(1, 40) g, generate_series(1, 3)",
    )
    assert stack.assert_equal("journal")["tables"][0]["rows_lake"] == 120
    one_of_each = "ctid IN (SELECT min(ctid) FROM journal GROUP BY n)"
    stack.sql(
        f"UPDATE journal SET note = 'b' WHERE {one_of_each}",
        f"DELETE FROM journal WHERE n % 4 = 0 AND {one_of_each}",
        "INSERT INTO journal SELECT * FROM journal WHERE n < 9",
        *[
            f"UPDATE journal SET note = note || '{i}', ratio = -ratio WHERE n % 10 = {i} AND {one_of_each}"
            for i in range(9)
        ],
        "UPDATE journal SET page = 'short', seen = NULL WHERE n > 30",
        "ALTER TABLE journal ADD COLUMN level int NOT NULL DEFAULT 7",
        f"UPDATE journal SET level = 8 WHERE {one_of_each}",
        "DELETE FROM journal WHERE n IN (5, 6)",
    )
    stack.assert_equal("journal")
    assert stack.lakehouse("dlq", "list", "--topic", "shop.public.journal")["total"] == 0


@pytest.mark.slow
def test_a_key_that_does_not_tell_rows_apart_in_events(stack: Stack) -> None:
    """Deferrable, so that rows swap it; generated, so that it is in no event; with a unique index of either kind."""
    stack.sql(
        "CREATE TABLE swapped (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v text, page text)",
        "INSERT INTO swapped SELECT g, 'row ' || g,"
        " CASE WHEN g % 3 = 0 THEN (SELECT string_agg(md5((g * 7 + i)::text), '') FROM generate_series(1, 300) i) END"
        " FROM generate_series(1, 1000) g",
        "CREATE TABLE swapped_index (id int NOT NULL UNIQUE DEFERRABLE, v text)",
        "INSERT INTO swapped_index SELECT g, 'row ' || g FROM generate_series(1, 100) g",
        "CREATE TABLE generated_key (a int, b int, v text,"
        " k text GENERATED ALWAYS AS (a::text || '-' || b::text) STORED PRIMARY KEY)",
        "INSERT INTO generated_key (a, b, v) SELECT g / 3, g % 3, 'row ' || g FROM generate_series(1, 9) g",
        "CREATE TABLE by_expression (id int PRIMARY KEY, v text)",
        "CREATE UNIQUE INDEX a_first ON by_expression (lower(v))",
        "INSERT INTO by_expression VALUES (1, 'a'), (2, 'b')",
        "CREATE TABLE only_expression (v text)",
        "CREATE UNIQUE INDEX ON only_expression (lower(v))",
        "INSERT INTO only_expression VALUES ('a'), ('B'), ('c')",
    )
    names = ("swapped", "swapped_index", "generated_key", "by_expression", "only_expression")
    stack.assert_equal(*names)
    stack.sql(
        "UPDATE swapped SET id = 1001 - id",
        "UPDATE swapped SET id = 3 - id WHERE id < 3",
        "UPDATE swapped_index SET id = 101 - id",
        "BEGIN; UPDATE generated_key SET a = a + 10 WHERE b = 0; DELETE FROM generated_key WHERE b = 1; COMMIT",
        "UPDATE generated_key SET v = 'changed' WHERE b = 2",
        "UPDATE by_expression SET v = 'c' WHERE id = 1",
        "UPDATE only_expression SET v = 'A' WHERE v = 'a'",
        "DELETE FROM only_expression WHERE v = 'B'",
    )
    report = stack.assert_equal(*names)
    assert [t["rows_lake"] for t in sorted(report["tables"], key=lambda t: t["table"])] == [2, 6, 2, 1000, 100]
    told = stack.report()["capture"]["tables"]
    for name, key in (("swapped", "swapped_pkey"), ("generated_key", "generated_key_pkey")):
        assert f"its key {key} is deferrable, or has generated columns" in told[f"public.{name}"]


@pytest.mark.slow
def test_any_replica_identity_will_do(stack: Stack) -> None:
    big = "(SELECT string_agg(md5((g * 7 + i)::text), '') FROM generate_series(1, 300) i)"
    identities = {"entire": "FULL", "chosen": "USING INDEX chosen_code_key", "none": "NOTHING"}
    for name, identity in identities.items():
        stack.sql(
            f"CREATE TABLE {name} (id bigint PRIMARY KEY, code text NOT NULL UNIQUE, note text, page text)",
            f"ALTER TABLE {name} REPLICA IDENTITY {identity}",
            f"INSERT INTO {name} SELECT g, 'c' || g, 'a', {big} FROM generate_series(1, 20) g",
            f"UPDATE {name} SET note = 'b' WHERE id < 9",
            f"UPDATE {name} SET code = 'd' || id WHERE id BETWEEN 5 AND 12",
            f"UPDATE {name} SET id = id + 100 WHERE id IN (3, 15)",
            f"DELETE FROM {name} WHERE id IN (4, 16)",
        )
    stack.assert_equal(*identities)


def test_broken_records_become_dead_letters_and_the_stream_goes_on(stack: Stack) -> None:
    broken = (b"not avro", b"\x00\x7f\xff\xff\xffunknown id", b"\x00")
    stack.produce("orders", *broken, headers=[("kept", b"as it is")])
    stack.assert_equal("orders")
    letters = stack.lakehouse("dlq", "list", "--topic", "shop.public.orders")["letters"]
    assert sorted(letter["reason"] for letter in letters) == ["not_avro", "not_avro", "unknown_schema"]


def test_a_key_waits_behind_its_dead_letter_until_that_is_dealt_with(stack: Stack) -> None:
    stack.sql("CREATE TABLE ward (id bigint PRIMARY KEY, note text)", "INSERT INTO ward VALUES (1, 'a'), (2, 'b')")
    stack.assert_equal("ward")
    consumer = Consumer({"bootstrap.servers": stack.endpoints["kafka_bootstrap"], "group.id": "test",
                         "auto.offset.reset": "earliest"})  # fmt: skip
    consumer.subscribe(["shop.public.ward"])
    records = [record for record in consumer.consume(2, 60) if record.error() is None]
    consumer.close()
    first = next(record for record in records if (record.key() or b"")[-1] == 2)
    stack.produce("ward", b"broken", key=bytes(first.key() or b""), partition=first.partition() or 0)
    stack.lakehouse("wait")
    stack.sql("UPDATE ward SET note = 'c' WHERE id IN (1, 2)", "UPDATE ward SET note = 'd' WHERE id = 1")
    stack.lakehouse("wait")
    letters = stack.lakehouse("dlq", "list", "--topic", "shop.public.ward", "--key", "1")["letters"]
    assert sorted(letter["reason"] for letter in letters) == ["not_avro", "parked", "parked"]
    assert not stack.lakehouse("verify", "ward", ok=(1,))["equal"]
    broken = next(letter for letter in letters if letter["reason"] == "not_avro")
    position = f"{broken['topic']}:{broken['partition']}:{broken['offset']}"
    stack.lakehouse("dlq", "discard", position, "--because", "sent by a test")
    assert stack.lakehouse("dlq", "replay", "--topic", "shop.public.ward", "--dry-run")["total"] == 2
    assert stack.lakehouse("dlq", "replay", "--topic", "shop.public.ward", "--key", "1")["total"] == 2
    stack.assert_equal("ward")
    stack.sql("UPDATE ward SET note = 'e' WHERE id = 1")
    stack.assert_equal("ward")
    assert stack.lakehouse("dlq", "list", "--topic", "shop.public.ward")["total"] == 0
    closed = stack.lakehouse("dlq", "list", "--topic", "shop.public.ward", "--all")["letters"]
    assert sorted((letter["state"], letter["because"]) for letter in closed) == [
        ("discarded", "sent by a test"), ("replayed", None), ("replayed", None),
    ]  # fmt: skip


class CutShort(Letters):
    """Ends with an error where a replay that was done would close its letters."""

    begun = False

    def begin(self, letters: Iterable[Letter], number: str) -> None:
        super().begin(letters, number)
        self.begun = True

    def finish(self, number: str | None) -> None:
        if self.begun:
            raise InterruptedError
        super().finish(number)


@pytest.mark.slow
def test_a_replay_that_is_cut_short_puts_each_letter_back_once(stack: Stack) -> None:
    topic = "shop.public.tally"
    stack.sql("CREATE TABLE tally (n int)", "INSERT INTO tally VALUES (1)")
    stack.assert_equal("tally")
    stack.produce("tally", b"broken", b"broken", key=None)
    stack.lakehouse("wait")
    decoder = Decoder(stack.endpoints["schema_registry_url"])
    with pytest.raises(InterruptedError):
        replay(CutShort(stack.catalog()), LetterFilter(topic=topic), decoder, stack.endpoints["kafka_bootstrap"])
    # They are as broken as before, and come back.
    wait_until(lambda: stack.lakehouse("dlq", "list", "--topic", topic)["total"] == 4)
    assert stack.lakehouse("replay", "--topic", topic)["total"] == 2
    stack.assert_equal("tally")
    every = stack.lakehouse("dlq", "list", "--topic", topic, "--all")["letters"]
    assert sorted(letter["state"] for letter in every) == ["open", "open", *["replayed"] * 4]
    stack.lakehouse("dlq", "discard", "--topic", topic, "--because", "sent by a test")


def test_a_table_that_cannot_go_on_is_held_while_the_others_do(stack: Stack) -> None:
    stack.sql(
        "CREATE TABLE clash (note text)",
        "INSERT INTO clash SELECT 'note ' || g FROM generate_series(1, 100) g",
        "ALTER TABLE clash ADD COLUMN id bigserial PRIMARY KEY",
        "INSERT INTO clash (note) VALUES ('numbered')",
        "CREATE TABLE flood (id bigint PRIMARY KEY)",
        "INSERT INTO flood VALUES (1)",
    )
    wait_until(lambda: "shop.public.clash" in stack.lakehouse("table", "list")["held"])
    stack.produce("flood", *[b"broken"] * 200, key=None)
    wait_until(lambda: "shop.public.flood" in stack.lakehouse("table", "list")["held"])
    stack.sql(
        "CREATE TABLE free (id bigint PRIMARY KEY)", "INSERT INTO free VALUES (1)", "INSERT INTO flood VALUES (2)"
    )
    report = stack.lakehouse("verify", "clash", "flood", "free", ok=(1,))
    assert {table["table"]: table["equal"] for table in report["tables"]} == {
        "public.clash": False, "public.flood": False, "public.free": True,
    }  # fmt: skip
    causes = {table["table"]: [each["cause"] for each in table["explanation"]] for table in report["tables"]}
    assert "held" in causes["public.clash"]
    assert "held" in causes["public.flood"]
    assert causes["public.free"] == []
    # What the process before held is tried again by the next one, and waited for until then.
    stack.make("kill", "s=mirror")
    late = stack.lakehouse("wait", "--timeout", str(WAIT_SECONDS), ok=(1,))
    assert "all but what is held is in the lake" in late["error"]
    assert late["held"].keys() == {"shop.public.clash", "shop.public.flood"}
    assert "lakehouse resync public.clash" in late["held"]["shop.public.clash"]
    assert "lakehouse dlq accept shop.public.flood" in late["held"]["shop.public.flood"]
    assert stack.lakehouse("wait", "--except-held")["held"] == late["held"]
    assert stack.lakehouse("wait", "--tables", "free")["caught_up"] is True
    assert stack.report()["mirror"]["held"] == late["held"]
    test = "tests/integration/test_mirror.py::test_a_table_that_cannot_go_on_is_held_while_the_others_do"
    follow(stack, RUNBOOKS / "dead-letters.md", test, TOPIC="shop.public.flood", WHY="sent by a test")
    follow(stack, RUNBOOKS / "table-held.md", test, TABLE="clash")
    resynced, accepted, *_ = stack.lakehouse("audit", "--since", "1h")["actions"]
    assert [accepted[name] for name in ("action", "target", "because", "outcome")] == [
        "accept", "shop.public.flood", "sent by a test", "done"
    ]  # fmt: skip
    assert [resynced[name] for name in ("action", "target", "because", "outcome")] == [
        "resync", "clash", "it was held", "done"
    ]  # fmt: skip
    assert resynced["detail"]["tables"] == 1
    assert "@" in resynced["who"]
    stack.assert_equal("clash", "flood", "free")
    assert stack.lakehouse("table", "list")["held"] == {}


@pytest.mark.slow
def test_a_held_table_that_is_dropped_or_given_up_is_let_go_of(stack: Stack) -> None:
    names = ("gone", "given_up", "gone_everywhere", "uncatalogued")
    for name in names:
        stack.sql(
            f"CREATE TABLE {name} (note text)",
            f"INSERT INTO {name} VALUES ('note')",
            f"ALTER TABLE {name} ADD COLUMN id bigserial PRIMARY KEY",
            f"INSERT INTO {name} (note) VALUES ('numbered')",
        )

    def held() -> dict[str, str]:
        return dict(stack.lakehouse("table", "list")["held"])

    wait_until(lambda: held().keys() == {f"shop.public.{name}" for name in names})
    # Dropped in the source, in the catalog, in both.
    for name in ("gone_everywhere", "uncatalogued"):
        stack.catalog().drop_table(f"shop.{name}")
    stack.sql("DROP TABLE gone", "DROP TABLE gone_everywhere")
    wait_until(lambda: not held().keys() & {"shop.public.gone", "shop.public.gone_everywhere"})
    stack.lakehouse("resync", "uncatalogued")
    wait_until(lambda: held().keys() == {"shop.public.given_up"})
    because = ("--because", "it isn't read by anybody")
    assert "isn't held" in stack.lakehouse("table", "give-up", "shop.public.gone", *because, ok=(2,))["error"]
    test = "tests/integration/test_mirror.py::test_a_held_table_that_is_dropped_or_given_up_is_let_go_of"
    follow(stack, RUNBOOKS / "table-held.md", test, TOPIC="shop.public.given_up", WHY=because[1])
    wait_until(lambda: held()["shop.public.given_up"].startswith("given up: "))
    assert stack.lakehouse("wait")["held"] == {}
    stack.assert_equal("uncatalogued")
    # They can be told apart after a restart, too, which nobody has told of either.
    stack.make("kill", "s=mirror")
    stack.sql("INSERT INTO given_up (note) VALUES ('new')")
    wait_until(lambda: held().get("shop.public.given_up", "given up").startswith("rows of "))
    stack.sql("DROP TABLE given_up")
    stack.lakehouse("wait")
    assert held() == {}


@pytest.mark.slow
def test_a_table_dropped_or_rolled_back_is_made_whole_from_its_topic(stack: Stack) -> None:
    for name in ("dropped", "rolled_back"):
        stack.sql(
            f"CREATE TABLE {name} (id bigint PRIMARY KEY, note text)",
            f"INSERT INTO {name} SELECT g, 'first' FROM generate_series(1, 200) g",
        )
    stack.assert_equal("dropped", "rolled_back")
    first = stack.catalog().load_table("shop.rolled_back").metadata.current_snapshot_id
    stack.sql("UPDATE rolled_back SET note = 'second' WHERE id <= 100", "DELETE FROM rolled_back WHERE id > 150")
    stack.assert_equal("rolled_back")
    test = "tests/integration/test_mirror.py::test_a_table_dropped_or_rolled_back_is_made_whole_from_its_topic"
    follow(stack, RUNBOOKS / "schema-change.md", test, LAKE_TABLE="shop.dropped")
    stack.catalog().load_table("shop.rolled_back").manage_snapshots().rollback_to_snapshot(first).commit()
    broken = stack.lakehouse("verify", "dropped", "rolled_back", ok=(1,))
    assert not any(table["equal"] for table in broken["tables"])
    stack.sql("INSERT INTO dropped VALUES (1000, 'new')", "INSERT INTO rolled_back VALUES (1000, 'new')")
    report = stack.assert_equal("dropped", "rolled_back")
    assert [table["rows_lake"] for table in report["tables"]] == [201, 151]


def _fall_behind(stack: Stack, *statements: str) -> None:
    """Have the mirror begin with what the statements write only once it is all in Kafka."""
    stack.faults.on("before-batch", "pause")
    wait_until(lambda: stack.fired("before-batch"))
    stack.sql(*statements)
    stack.published()
    stack.faults.off("before-batch")


@contextmanager
def _commits_nothing(stack: Stack, table: str) -> Iterator[None]:
    """What the block restarts goes on, with a new ``table``, and has no snapshot made of any other."""
    snapshots = _snapshots(stack)
    yield
    stack.sql(f"CREATE TABLE {table} (id bigint PRIMARY KEY)", f"INSERT INTO {table} VALUES (1)")
    stack.assert_equal()
    again = _snapshots(stack)
    assert {name: again[name] for name in snapshots} == snapshots, "a restart alone must commit nothing"
