import os
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from infra.toolchain import installer
from infra.toolchain.components import COMPONENTS, DEFAULT, LATER, Component
from infra.toolchain.errors import CommandFailed, ToolchainError, UnknownComponent
from infra.toolchain.folders import replacing, sweep
from infra.toolchain.layout import Layout
from infra.toolchain.stamps import Stamps, key


class Workshop:
    """Components that write a file each, and a record of what was made."""

    def __init__(self, root: Path) -> None:
        self.layout = Layout(root=root, architecture="amd64")
        self.made: list[str] = []
        self.version = dict.fromkeys(["base", "top", "other"], "1")
        self.broken: set[str] = set()
        needs = {"top": ("base",)}
        self.components = {name: self._component(name, needs.get(name, ())) for name in self.version}
        self.meanwhile: Callable[[], None] = lambda: None
        self.slow: dict[str, Event] = {}

    def _component(self, name: str, needs: tuple[str, ...]) -> Component:
        def make(layout: Layout, log: Path) -> None:
            self.meanwhile()
            if name in self.slow:
                assert self.slow[name].wait(60)
            log.write_text("$ make\nno space left\n", encoding="utf-8")
            if name in self.broken:
                raise CommandFailed("make ended with code 1", log, "Try again.")
            self.made.append(name)
            with replacing(layout.toolchain / name) as fresh:
                (fresh / "file").write_text(self.version[name], encoding="utf-8")

        return Component(
            name,
            lambda layout: layout.toolchain / name,
            lambda _: [self.version[name]],
            make,
            needs,
            later=name == "top",
        )

    def install(self, *names: str) -> list[str]:
        self.made.clear()
        return [failure.name for failure in installer.install(self.layout, names, self.components)]

    def later(self) -> list[str]:
        """What is made in the background, by a process of its own: its priority can't be raised again."""
        self.made.clear()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                installer.install_later(self.layout, "top", self.components)
                os.write(writer, " ".join(self.made).encode())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as answer:
            said = answer.read()
        os.waitpid(child, 0)
        return said.split()


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def test_needs_come_first_and_a_second_run_does_nothing(workshop: Workshop) -> None:
    assert workshop.install("top") == []
    assert workshop.made == ["base", "top"]
    assert workshop.install("top") == []
    assert workshop.made == []


def test_only_what_is_out_of_date_is_made_again(workshop: Workshop) -> None:
    workshop.install("top", "other")
    workshop.version["other"] = "2"
    workshop.install("top", "other")
    assert workshop.made == ["other"]
    assert (workshop.layout.toolchain / "other" / "file").read_text(encoding="utf-8") == "2"


def test_what_was_made_from_something_is_made_again_with_it(workshop: Workshop) -> None:
    workshop.install("top")
    workshop.version["base"] = "2"
    workshop.install("top")
    assert workshop.made == ["base", "top"]


def test_what_was_made_from_something_is_gone_with_it_if_nobody_asks_for_it_then(workshop: Workshop) -> None:
    workshop.install("top")
    for version in ("2", "1"):
        workshop.version["base"] = version
        workshop.install("base")
    workshop.install("top")
    assert workshop.made == ["top"]


def test_what_starts_the_stack_is_run_while_the_rest_is_still_being_installed(workshop: Workshop) -> None:
    started = Event()
    workshop.slow = {"other": started}
    then = installer.Then(["base"], started.set)
    assert installer.install(workshop.layout, ["base", "other"], workshop.components, then) == []
    assert workshop.made == ["base", "other"]


def test_what_starts_the_stack_is_run_at_once_if_nothing_is_out_of_date(workshop: Workshop) -> None:
    workshop.install("base")
    ran: list[bool] = []
    installer.install(
        workshop.layout, ["base"], workshop.components, installer.Then(["base"], lambda: ran.append(True))
    )
    assert ran == [True]


def test_nothing_is_started_without_what_it_needs(workshop: Workshop) -> None:
    workshop.broken.add("base")
    ran: list[bool] = []
    then = installer.Then(["base"], lambda: ran.append(True))
    (failure,) = installer.install(workshop.layout, ["base", "other"], workshop.components, then)
    assert (failure.name, ran) == ("base", [])


def test_it_is_told_whether_somebody_installs(workshop: Workshop) -> None:
    seen: list[bool] = []
    workshop.meanwhile = lambda: seen.append(installer.at_work(workshop.layout))
    workshop.install("other")
    assert (seen, installer.at_work(workshop.layout)) == ([True], False)


def test_what_nothing_waits_for_is_made_later_once_what_it_needs_is_there(workshop: Workshop) -> None:
    assert workshop.later() == []
    workshop.install("base")
    assert workshop.later() == ["top"]
    assert workshop.later() == []
    assert workshop.install("top") == []
    assert workshop.made == []


def test_what_is_made_later_is_not_taken_for_what_it_would_be_now(workshop: Workshop) -> None:
    workshop.install("base")

    def change() -> None:
        workshop.meanwhile = lambda: None
        workshop.version["base"] = "2"
        workshop.install("base")

    workshop.meanwhile = change
    workshop.later()
    workshop.version["base"], workshop.meanwhile = "2", lambda: None
    workshop.install("top")
    assert workshop.made == ["top"]


def test_what_is_being_made_later_is_not_made_twice(workshop: Workshop) -> None:
    workshop.install("base")
    with installer._held(workshop.layout, "top"):
        assert workshop.later() == []
    assert workshop.later() == ["top"]


def test_what_failed_later_is_made_next_time(workshop: Workshop) -> None:
    workshop.install("base")
    workshop.broken.add("top")
    assert workshop.later() == []
    workshop.broken.clear()
    assert workshop.later() == ["top"]


def test_a_borrowed_toolchain_is_used_and_never_changed(workshop: Workshop, tmp_path: Path) -> None:
    workshop.install("base")
    borrower = Workshop(tmp_path / "borrower")
    borrower.layout.toolchain.parent.mkdir(parents=True)
    borrower.layout.toolchain.symlink_to(workshop.layout.toolchain)
    assert borrower.install("base") == []
    with pytest.raises(ToolchainError, match="outside this checkout"):
        borrower.install("other")
    assert borrower.made == []


def test_a_deleted_target_is_made_again(workshop: Workshop) -> None:
    workshop.install("other")
    (workshop.layout.toolchain / "other" / "file").unlink()
    (workshop.layout.toolchain / "other").rmdir()
    workshop.install("other")
    assert workshop.made == ["other"]


def test_a_failure_stops_what_needs_it_and_nothing_else_and_a_rerun_resumes(workshop: Workshop) -> None:
    workshop.broken.add("base")
    assert workshop.install("top", "other") == ["base"]
    assert workshop.made == ["other"]
    workshop.broken.clear()
    assert workshop.install("top", "other") == []
    assert workshop.made == ["base", "top"]


def test_a_failure_is_explained_with_its_log_and_what_to_do(workshop: Workshop) -> None:
    workshop.broken.add("base")
    (failure,) = installer.install(workshop.layout, ["base"], workshop.components)
    text = installer.explain(failure.error, failure.name)
    assert "make ended with code 1" in text
    assert "no space left" in text
    assert "Try again." in text


def test_an_unknown_component_is_named_with_the_choices(workshop: Workshop) -> None:
    with pytest.raises(UnknownComponent, match="'tpo'") as caught:
        workshop.install("tpo")
    assert "top" in caught.value.advice


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "jars"
    with replacing(target) as fresh:
        (fresh / "old").touch()

    def breaks_off() -> None:
        with replacing(target) as fresh:
            (fresh / "new").touch()
            raise ToolchainError("broken off", "again")

    with pytest.raises(ToolchainError):
        breaks_off()
    assert [path.name for path in target.iterdir()] == ["old"]
    (tmp_path / ".jars.new.left").mkdir()
    sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["jars"]


def test_a_stamp_follows_texts_and_file_contents(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    file.write_text("a", encoding="utf-8")
    before = key(["1", file])
    assert key(["1", file]) == before
    assert key(["2", file]) != before
    file.write_text("b", encoding="utf-8")
    assert key(["1", file]) != before
    assert key(["ab", "c"]) != key(["a", "bc"])


def test_a_cleared_stamp_is_not_current(tmp_path: Path) -> None:
    stamps = Stamps(tmp_path / "stamps")
    stamps.write("kafka", "k")
    assert stamps.current("kafka", "k", tmp_path)
    assert not stamps.current("kafka", "k", tmp_path / "missing")
    stamps.clear("kafka")
    assert not stamps.current("kafka", "k", tmp_path)


def test_everything_is_installed_by_default_but_what_checks_faults_and_the_benchmark_need() -> None:
    left_out = {"dev", "faults", "flink", "iceberg-sink", "observe", "jmx", "alertmanager", "postgres-exporter"}
    left_out |= {"jdk", "trino"}
    assert set(installer.wanted(DEFAULT)) == set(COMPONENTS) - left_out - set(LATER)


def test_nothing_that_is_installed_first_waits_for_what_is_made_later() -> None:
    assert LATER == ("classes",)
    assert not set(installer.wanted(DEFAULT)) & set(LATER)
