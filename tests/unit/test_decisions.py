"""The decision records, their index, their measurements and every link to them agree."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = Path("infra/decisions")
MOST_WORDS = 500
SUFFIXES = {".md", ".py", ".yml", ".yaml", ".sh", ".toml", ".xml", ".properties", ".txt", ""}
SKIPPED = {"node_modules", "__pycache__"}
HIDDEN_BUT_READ = {".ci"}

FILE_NAME = re.compile(r"(\d{3})-[a-z0-9.-]+\.md")
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
STATUS = re.compile(r"accepted(?: · changed by (\d{3}(?:, \d{3})*))?|superseded by (\d{3})")
DATE = re.compile(r" · \d{4}-\d{2}-\d{2}$")
SECTIONS = ("**Status.** ", "**Context.**", "**Choice.**", "**Costs.**")
ROW = re.compile(r"^\| (\d{3}) \| \[(.+)\]\((\S+)\) \| (.+) \|$", re.MULTILINE)
# A path such as `infra/decisions/007-one-driver.md` or `infra/decisions/007`, "decisions 006 and 012".
PATH = re.compile(r"decisions/((?:measurements/)?\d{3}[\w.-]*)")
MENTION = re.compile(r"\b[Dd]ecisions?\s+((?:\[?\d{3}\b\]?(?:\([^)]*\))?(?:,?\s+(?:and\s+|to\s+)?)?)+)")


@dataclass(frozen=True)
class Record:
    """One decision; ``status`` without its links."""

    number: str
    path: Path
    text: str

    @property
    def title(self) -> str:
        return self.text.split("\n", 1)[0].removeprefix(f"# {self.number}: ")

    @property
    def status(self) -> str:
        line = next((line for line in self.text.splitlines() if line.startswith(SECTIONS[0])), "")
        return LINK.sub(r"\1", line.removeprefix(SECTIONS[0]))

    @property
    def changed_by(self) -> list[str]:
        return re.findall(r"\d{3}", DATE.sub("", self.status))

    @property
    def links(self) -> set[str]:
        return {target for _, target in LINK.findall(self.text)}


def read_records(root: Path) -> list[Record]:
    paths = sorted(path for path in (root / FOLDER).glob("*.md") if path.name != "README.md")
    return [Record(path.name[:3], path, path.read_text(encoding="utf-8")) for path in paths]


def record_problems(root: Path) -> Iterator[str]:
    """Name, title, status, sections and length of each record."""
    records = read_records(root)
    expected = [f"{number:03}" for number in range(1, len(records) + 1)]
    if [record.number for record in records] != expected:
        yield "the numbers of the records aren't 001, 002 and so on, each once"
    for record in records:
        name = record.path.name
        if not FILE_NAME.fullmatch(name):
            yield f"{name}: not named NNN-short-name.md"
        if not record.text.startswith(f"# {record.number}: "):
            yield f"{name}: its title doesn't begin with its number"
        if not STATUS.fullmatch(DATE.sub("", record.status)):
            yield f"{name}: its status is neither accepted, changed nor superseded: {record.status!r}"
        found = [record.text.find(f"\n{section}") for section in SECTIONS]
        if -1 in found or found != sorted(found):
            yield f"{name}: it doesn't have status, context, choice and costs, in this order"
        if (words := len(record.text.split())) > MOST_WORDS:
            yield f"{name}: {words} words, at most {MOST_WORDS}"


def status_problems(root: Path) -> Iterator[str]:
    """A status that names another record: it is there, it is newer, and it links back."""
    records = {record.number: record for record in read_records(root)}
    for record in records.values():
        for number in record.changed_by:
            if number not in records:
                yield f"{record.path.name}: its status names {number}, which isn't there"
            elif number <= record.number:
                yield f"{record.path.name}: its status names {number}, which isn't newer"
            elif record.path.name not in records[number].links:
                yield f"{records[number].path.name}: it doesn't link to {record.path.name}, which it changes"


def index_problems(root: Path) -> Iterator[str]:
    """Every record is in the index once, with its own title and status."""
    rows = ROW.findall((root / FOLDER / "README.md").read_text(encoding="utf-8"))
    records = read_records(root)
    expected = [(record.number, record.title, record.path.name, record.status) for record in records]
    yield from (f"README.md: no record is like the row {row}" for row in rows if row not in expected)
    for row in expected:
        if (times := rows.count(row)) != 1:
            yield f"README.md: {times} rows are {row}, not one"


def measurement_problems(root: Path) -> Iterator[str]:
    """Every file of measurements belongs to a record, and each of the two links to the other."""
    records = {record.number: record for record in read_records(root)}
    for path in sorted((root / FOLDER / "measurements").iterdir()):
        record = records.get(path.name[:3])
        if record is None or not FILE_NAME.fullmatch(path.name):
            yield f"measurements/{path.name}: no record has this number"
            continue
        if f"measurements/{path.name}" not in record.links:
            yield f"{record.path.name}: it doesn't link to measurements/{path.name}"
        if f"](../{record.path.name})" not in path.read_text(encoding="utf-8"):
            yield f"measurements/{path.name}: it doesn't link to {record.path.name}"


def link_problems(root: Path) -> Iterator[str]:
    """Every path, link and number of a decision, anywhere in the repository."""
    folder = root / FOLDER
    numbers = {record.number for record in read_records(root)}
    for path in files(root):
        text, name = path.read_text(encoding="utf-8", errors="replace"), path.relative_to(root)
        for target in (each.rstrip(".") for each in PATH.findall(text)):
            if target not in numbers and not (folder / target).is_file():
                yield f"{name}: no decision is at {target}"
        for mention in MENTION.findall(text):
            for number in re.findall(r"\d{3}", re.sub(r"\([^)]*\)", "", mention)):
                if number not in numbers:
                    yield f"{name}: there is no decision {number}"
        if path.suffix == ".md":
            yield from (f"{name}: {problem}" for problem in markdown_problems(path, text, folder))


def markdown_problems(path: Path, text: str, folder: Path) -> Iterator[str]:
    """The relative links of one page, to decisions or from them."""
    for label, target in LINK.findall(text):
        if target.startswith(("#", "http://", "https://")):
            continue
        linked = (path.parent / target.split("#", 1)[0]).resolve()
        if not any(each.is_relative_to(folder.resolve()) for each in (path.resolve(), linked)):
            continue
        if not linked.exists():
            yield f"nothing is at {target}"
        elif re.fullmatch(r"\d{3}", label) and not linked.name.startswith(label):
            yield f"[{label}] leads to {target}"


def files(root: Path) -> Iterator[Path]:
    """The text files of the repository, but this one."""
    for path in sorted(root.iterdir()):
        if path.is_dir():
            if path.name not in SKIPPED and (not path.name.startswith(".") or path.name in HIDDEN_BUT_READ):
                yield from files(path)
        elif path.suffix in SUFFIXES and path != Path(__file__):
            yield path


CHECKS = [record_problems, status_problems, index_problems, measurement_problems, link_problems]


@pytest.mark.parametrize("check", CHECKS)
def test_the_decisions_agree(check: Callable[[Path], Iterator[str]]) -> None:
    assert list(check(ROOT)) == []


def test_the_repository_is_read() -> None:
    read = {path.relative_to(ROOT).as_posix() for path in files(ROOT)}
    assert {"Makefile", "README.md", "CHANGELOG.md", "docker-compose.yml", ".ci/run", "pipelines/__init__.py"} <= read
    assert len(read_records(ROOT)) >= 60


RECORD = """# {number}: {title}
**Status.** {status}

**Context.** A.

**Choice.** B.

**Costs.** {costs}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two records that agree; the newer one changes the older."""
    folder = tmp_path / FOLDER
    (folder / "measurements").mkdir(parents=True)
    old, new = "changed by [002](002-new.md)", "See [001](001-old.md) and [figures](measurements/002-new.md)."
    write(folder / "001-old.md", RECORD.format(number="001", title="Old", status=f"accepted · {old}", costs="C."))
    write(folder / "002-new.md", RECORD.format(number="002", title="New", status="accepted", costs=new))
    write(folder / "measurements/002-new.md", "# 002: Figures\nRecord: [002](../002-new.md).\n")
    rows = ["| 001 | [Old](001-old.md) | accepted · changed by 002 |", "| 002 | [New](002-new.md) | accepted |"]
    write(folder / "README.md", "\n".join(rows))
    write(tmp_path / "code.py", "# See infra/decisions/001-old.md, decisions 001 and 002, and infra/decisions/002.\n")
    write(tmp_path / "page.md", "[001](infra/decisions/001-old.md)\n")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def test_what_agrees_has_no_problems(repository: Path) -> None:
    assert [problem for check in CHECKS for problem in check(repository)] == []


BROKEN = {
    "no costs": ("infra/decisions/001-old.md", "**Costs.**", "**Prices.**", "costs"),
    "sections out of order": ("infra/decisions/001-old.md", "**Context.** A.", "**Costs.** A.", "in this order"),
    "too long": ("infra/decisions/001-old.md", " A.", " A." * MOST_WORDS, "words"),
    "another number in the title": ("infra/decisions/002-new.md", "# 002", "# 003", "begin with its number"),
    "unknown status": ("infra/decisions/002-new.md", "accepted", "agreed", "status is neither"),
    "status of no record": ("infra/decisions/001-old.md", "[002](002-new.md)", "009", "009, which isn't there"),
    "superseded by no record": ("infra/decisions/002-new.md", "accepted", "superseded by 009", "009, which isn't"),
    "changed by an older one": ("infra/decisions/002-new.md", "accepted", "superseded by 001", "isn't newer"),
    "no link back": ("infra/decisions/002-new.md", "[001](001-old.md)", "the other", "doesn't link to 001-old.md"),
    "another title in the index": ("infra/decisions/README.md", "[Old]", "[Older]", "no record is like the row"),
    "another status in the index": ("infra/decisions/README.md", " · changed by 002", "", "no record is like the row"),
    "not in the index": ("infra/decisions/README.md", "| 002 |", "| two |", "0 rows are"),
    "measurements without a link": ("infra/decisions/002-new.md", "measurements/002-new.md", "002-new.md", "to meas"),
    "measurements without a way back": ("infra/decisions/measurements/002-new.md", "../", "", "link to 002-new.md"),
    "path in code": ("code.py", "001-old.md", "001-older.md", "no decision is at 001-older.md"),
    "number of a path in code": ("code.py", "decisions/002", "decisions/009", "no decision is at 009"),
    "number in words": ("code.py", "001 and 002", "001 and 009", "there is no decision 009"),
    "link of a page": ("page.md", "001-old", "001-older", "nothing is at"),
    "link to another record": ("page.md", "001-old", "002-new", "leads to"),
}


@pytest.mark.parametrize(("path", "old", "new", "told"), BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_told(repository: Path, path: str, old: str, new: str, told: str) -> None:
    text = (repository / path).read_text(encoding="utf-8")
    assert old in text
    write(repository / path, text.replace(old, new))
    assert [problem for check in CHECKS for problem in check(repository) if told in problem]


@pytest.mark.parametrize("name", ["003-alone.md", "002-other.md"])
def test_measurements_without_a_link_are_told(repository: Path, name: str) -> None:
    write(repository / FOLDER / "measurements" / name, "# Figures\n")
    assert list(measurement_problems(repository))
