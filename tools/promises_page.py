"""Write the facts of each promise into docs/promises.md: sentence, evidence, checker, tests.

`python tools/promises_page.py` keeps the rule of each promise, the prose after its facts, and the tests that it names.
A new promise gets an empty rule to fill in. `tests/unit/harness/test_promises.py` fails when the page is not current.
"""

import re
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from upheaval.checkers.checker import FILES, Checker, Source
from upheaval.checkers.promises import Promise
from upheaval.checkers.table import CHECKERS

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "promises.md"
CHECKERS_FOLDER: Final = ROOT / "harness" / "upheaval" / "checkers"
BEGIN: Final = "<!-- index: written by tools/promises_page.py -->"
END: Final = "<!-- end of the index -->"
GROUPS: Final = {
    "evidence": "The run and its evidence",
    "protocol": "Consensus",
    "history": "Clients",
    "services": "Services",
    "states": "Snapshots and copies",
    "liveness": "Time",
}
"""The headings of the page: one for each package of checkers."""
LOGS: Final = frozenset((Source.FAULTS, Source.TRACES, Source.ARCHIVES, Source.CLUSTER))
"""What it takes to read the logs of all members."""
NO_TESTS: Final = "Tests: none."


class Entry(NamedTuple):
    """A promise, its row of the table, and the module of that row."""

    promise: Promise
    checker: Checker
    module: str

    @property
    def group(self) -> str:
        """The package of the module."""
        return self.module.split(".")[2]


def module_of(checker: Checker) -> str:
    """The module that defines the row: the only one besides the table that has it as a global."""
    modules = [
        name
        for name, module in sys.modules.items()
        if name.startswith("upheaval.checkers.") and name != "upheaval.checkers.table"
        if any(value is checker for value in vars(module).values())
    ]
    (module,) = modules
    return module


def entries() -> list[Entry]:
    """All promises, by group, in the order of the table."""
    found = [Entry(promise, checker, module_of(checker)) for checker in CHECKERS for promise in checker.promises]
    order = list(GROUPS)
    return sorted(found, key=lambda entry: order.index(entry.group))


def evidence_of(checker: Checker) -> str:
    """What the checker reads besides the manifest."""
    if len(checker.needs) == len(Source):
        return "everything"
    named = ["logs"] if checker.needs >= LOGS else []
    besides = [source for source in Source if source in checker.needs and not (named and source in LOGS)]
    return ", ".join([*named, *besides])


def sources() -> str:
    """A table of the files of each kind of evidence."""
    rows = [f"| {source} | {', '.join(f'`{pattern}`' for pattern in FILES[source])} |" for source in Source]
    logs = f"| logs | {', '.join(source for source in Source if source in LOGS)} |"
    return "\n".join(["| evidence | files |", "|---|---|", logs, *(row for row in rows if "`" in row)])


def facts(entry: Entry, tests: str) -> str:
    """What is known of a promise from the code; the line of tests is the page's own."""
    path = Path(entry.module.replace(".", "/") + ".py")
    return "\n".join(
        [
            f"### {entry.promise.value}",
            "",
            f"**{entry.promise.sentence}**",
            "",
            *([f"Evidence: {evidence}."] if (evidence := evidence_of(entry.checker)) else []),
            f"Checker: [`{path.relative_to('upheaval/checkers')}`](../harness/{path}).",
            tests,
        ]
    )


def index(everything: list[Entry]) -> str:
    """A table of all promises by group, with links."""
    rows = [
        f"| [{title}](#{title.lower().replace(' ', '-')}) | {', '.join(links)} |"
        for group, title in GROUPS.items()
        if (links := [f"[{promise.value}](#{promise.value})" for promise, _, _ in of_group(everything, group)])
    ]
    return "\n".join(["| about | promises |", "|---|---|", *rows])


def of_group(everything: list[Entry], group: str) -> list[Entry]:
    """Those with a checker in that package."""
    return [entry for entry in everything if entry.group == group]


def sections(text: str) -> Iterator[tuple[str, str, str]]:
    """Id, line of tests and rule of each promise that the page has."""
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        identifier, _, rest = part.partition("\n")
        match = re.search(r"^Tests: .*$", rest, re.MULTILINE)
        rule = rest[match.end() :] if match else rest
        yield identifier, match.group() if match else NO_TESTS, re.split(r"^## ", rule, flags=re.MULTILINE)[0].strip()


def current(text: str) -> str:
    """The page with facts and index as the code has them. Raises `SystemExit` without the marks of the index."""
    before, begin, rest = text.partition(BEGIN)
    if not begin or END not in rest:
        raise SystemExit(f"{PAGE} has no marks for the index")
    rules = {identifier: (tests, rule) for identifier, tests, rule in sections(text)}
    everything = entries()
    parts = [f"{before}{BEGIN}\n\n{index(everything)}\n\n{sources()}\n\n{END}"]
    for group, members in groupby(everything, key=lambda entry: entry.group):
        parts.append(f"## {GROUPS[group]}")
        for entry in members:
            tests, rule = rules.get(entry.promise.value, (NO_TESTS, ""))
            parts += [facts(entry, tests), *([rule] if rule else [])]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(current(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
