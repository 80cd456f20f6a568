"""Which rows of the peer's test inventory our tests show: collect the marks, write docs/parity.md.

python tools/parity.py                    writes docs/parity.md
python tools/parity.py --check            status 1 when the file is not current or a mark is wrong
python tools/parity.py --missing          the rows that count and that no test shows

The inventory (tests/parity/inventory.tsv) has a row for each test of Aeron Cluster's own suites; a test of ours carries
`@pytest.mark.parity("CT-22")` when its central assertion is that of the row. Marks are those that pytest collects.
"""

import argparse
import csv
import json
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
INVENTORY: Final = ROOT / "tests" / "parity" / "inventory.tsv"
PAGE: Final = ROOT / "docs" / "parity.md"
MARK: Final = "mark.parity("
OPERATION: Final = frozenset({"backup", "standby", "termination", "tool", "auth"})
"""Areas of those who operate a cluster, counted among all and by themselves."""
COUNTED_TIERS: Final = ("A", "C")
MOST_TESTS: Final = 6
MOST_ROWS: Final = 8
WHOLE_MEMBERS: Final = (
    "tests/system/",
    "tests/simulation/",
    "tests/scenarios/",
    "tests/integration/",
    "tests/unit/runtime/",
    "tests/unit/cluster/",
)
"""Where tests run whole members: only these show rows of the peer's system tests."""


@dataclass(frozen=True, slots=True)
class Row:
    """One test of the peer. `kind` is `system` or `unit`; tier D is of value to the peer's platform alone."""

    id: str
    kind: str
    area: str
    tier: str
    suite: str
    title: str

    @property
    def counts(self) -> bool:
        return self.tier in COUNTED_TIERS


@dataclass(frozen=True, slots=True)
class Marked:
    """A collected test: its node id, that of its function, and the rows that it is marked with."""

    node: str
    rows: tuple[str, ...]

    @property
    def function(self) -> str:
        return self.node.partition("[")[0]


Shown = dict[str, list[str]]
"""By row the tests that show it: functions, or single cases of them where only those are marked."""


def read_inventory() -> dict[str, Row]:
    with INVENTORY.open(encoding="utf-8", newline="") as stream:
        lines = list(csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    return {line[0]: Row(*line) for line in lines[1:]}


def marked_files() -> list[str]:
    """Test files with a mark in them: the others need not be collected."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in files if MARK in path.read_text(encoding="utf-8")]


class _Collector:
    """Keeps what pytest collected."""

    def __init__(self) -> None:
        self.items: list[Marked] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            rows = tuple(str(row) for mark in item.iter_markers("parity") for row in mark.args)
            self.items.append(Marked(item.nodeid, rows))


def collect_here(files: list[str]) -> list[Marked]:
    """Collect in this process, which pytest changes; `collect` does it in one of its own."""
    collector = _Collector()
    status = pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", *files], plugins=[collector])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"pytest cannot collect: status {status}")
    return collector.items


def collect() -> list[Marked]:
    """All tests of the files that carry marks, marked or not."""
    command = [sys.executable, __file__, "--collect"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"collecting the marks failed:\n{done.stdout}{done.stderr}")
    return [Marked(node, tuple(rows)) for node, rows in json.loads(done.stdout.splitlines()[-1])]


def shown_rows(items: list[Marked]) -> Shown:
    cases: dict[str, list[Marked]] = defaultdict(list)
    for item in items:
        cases[item.function].append(item)
    shown: dict[str, list[str]] = defaultdict(list)
    for function, same in cases.items():
        for row in sorted({row for item in same for row in item.rows}):
            having = [item.node for item in same if row in item.rows]
            shown[row] += [function] if len(having) == len(same) else having
    return dict(shown)


def problems(inventory: dict[str, Row], items: list[Marked]) -> list[str]:
    """What is wrong with the marks, a line each."""
    shown = shown_rows(items)
    found = [
        f"{row}: no such row in the inventory ({tests[0]})" for row, tests in shown.items() if row not in inventory
    ]
    found += [f"{row}: {len(tests)} tests" for row, tests in shown.items() if len(tests) > MOST_TESTS]
    found += [f"{item.node}: {len(item.rows)} rows" for item in items if len(item.rows) > MOST_ROWS]
    found += [f"{item.node}: a row twice" for item in items if len(set(item.rows)) < len(item.rows)]
    found += [
        f"{row}: {test} runs no whole members"
        for row, tests in shown.items()
        for test in tests
        if row in inventory and inventory[row].kind == "system" and not test.startswith(WHOLE_MEMBERS)
    ]
    return found


def counted(inventory: dict[str, Row], shown: Shown, kind: str = "", area: str = "") -> list[str]:
    """The rows that count and are shown."""
    rows = (inventory[row] for row in shown if row in inventory)
    return sorted(row.id for row in rows if row.counts and kind in ("", row.kind) and area in ("", row.area))


def page(inventory: dict[str, Row], items: list[Marked]) -> str:
    shown = shown_rows(items)
    lines = [
        "# Parity with the peer's tests",
        "",
        "Written by `tools/parity.py` from the tests' marks; `tools/check_parity.py` shows that they can fail.",
        "",
        "A row is one test of Aeron Cluster's own suites, in words of ours (`tests/parity/inventory.tsv`). Tier A is",
        "behaviour that a deterministic simulation reproduces, B needs fault injection, C is files and configuration,",
        "D is of value to the peer alone. Rows of tiers A and C count.",
        "",
        "| | rows that count | shown |",
        "|---|---|---|",
    ]
    for kind, name in (("system", "system tests"), ("unit", "unit tests"), ("", "all")):
        all_rows = [row for row in inventory.values() if row.counts and kind in ("", row.kind)]
        lines.append(f"| {name} | {len(all_rows)} | {len(counted(inventory, shown, kind))} |")
    operation = [row for row in inventory.values() if row.counts and row.area in OPERATION]
    name = "of all: backup, standby, termination, tools, authentication"
    lines.append(f"| {name} | {len(operation)} | {sum(row.id in shown for row in operation)} |")
    others = [row for row in shown if row in inventory and not inventory[row].counts]
    lines += ["", f"{len(others)} rows that do not count are shown as well.", "", "## Shown", ""]
    lines += ["| row | tier | area | what | tests |", "|---|---|---|---|---|"]
    for row in inventory.values():
        if row.id in shown:
            tests = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in shown[row.id])
            lines.append(f"| {row.id} | {row.tier} | {row.area} | {row.title} | {tests} |")
    lines += ["", "## Not shown", "", "| row | tier | area | what |", "|---|---|---|---|"]
    lines += [
        f"| {row.id} | {row.tier} | {row.area} | {row.title} |"
        for row in inventory.values()
        if row.id not in shown and row.counts
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, tell whether the file is current")
    parser.add_argument("--missing", action="store_true", help="list the rows that count and are not shown")
    parser.add_argument("--collect", action="store_true", help=argparse.SUPPRESS)
    parsed = parser.parse_args(arguments)
    if parsed.collect:
        items = collect_here(marked_files())
        print("\n" + json.dumps([(item.node, item.rows) for item in items]))
        return 0
    inventory, items = read_inventory(), collect()
    wrong = problems(inventory, items)
    for line in wrong:
        print(line, file=sys.stderr)
    if parsed.missing:
        shown = shown_rows(items)
        print("\n".join(f"{r.id} {r.area} {r.title}" for r in inventory.values() if r.counts and r.id not in shown))
        return 0
    current = page(inventory, items)
    if not parsed.check:
        PAGE.write_text(current, encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != current:
        print(f"{PAGE} is not current: run python tools/parity.py", file=sys.stderr)
        return 1
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
