"""`python tools/check_protocol_rows.py`: the rows of tests/architecture/protocol_rows.md hold what they say.

Quick part (`--quick`, also `tests/architecture/test_protocol_rows.py`): functions and tests that rows name exist, every
message and field of the documents has its row. Long part: for each row of a message, circumstance or interval its
functions are made to do nothing, one row after the other, and at least one of the row's tests must fail.
`--rows SEED:N` draws N of them.
"""

import argparse
import ast
import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import protocol_row_noop
from upheaval_node.protocol import cluster_messages
from upheaval_node.protocol.describe import camel_case
from upheaval_node.protocol.message import Message

ROOT: Final = Path(__file__).parents[1]
TESTS: Final = ROOT / "tests"
PAGE: Final = TESTS / "architecture" / "protocol_rows.md"
KINDS: Final = ("message", "circumstance", "field", "interval")
TIMEOUT_S: Final = 600

DOCUMENTED: Final = {
    stream: tuple(names.split())
    for stream, names in {
        "consensus": "CanvassPosition RequestVote Vote NewLeadershipTerm AppendPosition CommitPosition CatchupPosition"
        " StopCatchup TerminationPosition TerminationAck BackupQuery BackupResponse Challenge ChallengeResponse"
        " HeartbeatRequest HeartbeatResponse StandbySnapshot",
        "service": "JoinLog ServiceTerminationPosition RequestServiceAck ClusterMembersResponse"
        " ClusterMembersExtendedResponse",
        "ingress": "SessionMessageHeader SessionConnectRequest SessionCloseRequest SessionKeepAlive ChallengeResponse"
        " AdminRequest",
        "log": "SessionMessageHeader SessionOpenEvent SessionCloseEvent TimerEvent ClusterActionRequest"
        " NewLeadershipTermEvent",
    }.items()
}
"""The messages of the documents, by the stream on which they travel."""

_CODE: Final = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table. `name` is its first cell; of a message or field `message (stream)` or `message.field`."""

    kind: str
    line: int
    name: str
    code: tuple[str, ...]
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{PAGE.name}:{self.line}: {self.kind} {self.name}"


def rows(text: str) -> Iterator[Row]:
    """The rows of the tables whose first column is one of `KINDS`, and whose last two are code and tests."""
    kind = ""
    for number, line in enumerate(text.split("\n"), start=1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            kind = ""
        elif not kind:
            is_ours = cells[0] in KINDS and cells[-2:] == ["code", "tests"]
            kind = cells[0] if is_ours else "other"
        elif kind != "other" and set(line) - set("|-: "):
            yield Row(kind, number, cells[0], _names(cells[-2]), _names(cells[-1]))


def _names(cell: str) -> tuple[str, ...]:
    return tuple(_CODE.findall(cell))


# --- what can be seen at once ---


def quick_problems(text: str) -> list[str]:
    """What is wrong with the rows without running anything."""
    found = list(rows(text))
    problems = [f"there is no table of {kind}s" for kind in KINDS if not any(row.kind == kind for row in found)]
    for row in found:
        for name in row.code:
            try:
                protocol_row_noop.find(name)
            except LookupError as error:
                problems.append(f"{row}: {error}")
        problems += [f"{row}: there is no test {name}" for name in row.tests if node_id(name) is None]
        if not row.tests and row.code:
            problems.append(f"{row}: has no test")
    return problems + _missing(found)


def _missing(found: Sequence[Row]) -> list[str]:
    """Messages and fields of the documents without a row, and rows of fields that no message has."""
    named = {kind: [row.name for row in found if row.kind == kind] for kind in KINDS}
    problems = []
    wanted_fields: set[str] = set()
    for stream, messages in DOCUMENTED.items():
        for message in messages:
            label = f"{message} ({stream})"
            if not any(name.startswith(label) for name in named["message"]):
                problems.append(f"{PAGE.name}: no row for the message {label}")
            wanted_fields |= {f"{message}.{field}" for field in _fields(message)}
    problems += [f"{PAGE.name}: no row for the field {name}" for name in sorted(wanted_fields - set(named["field"]))]
    problems += [f"{PAGE.name}: no message has the field {name}" for name in set(named["field"]) - wanted_fields]
    return problems


def _fields(message: str) -> list[str]:
    """Fields of a message in the schema; a group counts as one."""
    cls: type[Message] = getattr(cluster_messages, message)
    return [camel_case(name) for name in cls.__match_args__]


@functools.cache
def _test_file(name: str) -> Path | None:
    """The one test file of a name, which has as much of its folder as is needed to tell it from others."""
    found = [path for path in TESTS.rglob("test_*.py") if path.with_suffix("").as_posix().endswith(f"/{name}")]
    return found[0] if len(found) == 1 else None


@functools.cache
def _functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def node_id(name: str) -> str | None:
    """`test_file::what_it_shows` as pytest knows it; None when there is no such test."""
    file, _, function = name.partition("::")
    path = _test_file(file)
    if path is None or f"test_{function}" not in _functions(path):
        return None
    return f"{path.relative_to(ROOT)}::test_{function}"


# --- what has to be run ---


def is_noticed(row: Row) -> str:
    """Make the row's functions do nothing and run its tests: empty when one of them fails, else what is wrong."""
    missing = [name for name in row.tests if node_id(name) is None]
    if missing or not row.tests:
        # Without a name pytest would run everything that there is.
        return f"there is no test {', '.join(missing)}".rstrip()
    status = run_tests(row.tests, ",".join(row.code))
    if status in (1, None):
        return ""
    return "no test of the row notices that its code does nothing" if status == 0 else f"pytest ended with {status}"


def run_tests(names: Sequence[str], disabled: str = "") -> int | None:
    """Exit status of pytest; None when it did not end in time, as with a message that is awaited for ever."""
    nodes = [node for name in names if (node := node_id(name)) is not None]
    environment = {**os.environ, protocol_row_noop.VARIABLE: disabled, "PYTHONPATH": str(ROOT / "tools")}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "protocol_row_noop"]
    try:
        done = subprocess.run(
            [*command, "-m", "not nightly", *nodes],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    return done.returncode


def triable(text: str) -> list[Row]:
    return [row for row in rows(text) if row.kind != "field" and row.code]


def _draw(text: str) -> tuple[int, int]:
    seed, _, count = text.partition(":")
    return int(seed), int(count)


_draw.__name__ = "SEED:N"  # what argparse calls the type in its message


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run no test")
    parser.add_argument("--rows", type=_draw, metavar="SEED:N", help="try N rows, drawn by seed")
    parser.add_argument("--only", metavar="TEXT", help="try rows whose name has this text")
    options = parser.parse_args(arguments)
    text = PAGE.read_text(encoding="utf-8")
    problems = quick_problems(text)
    if not options.quick and not problems:
        chosen = [row for row in triable(text) if options.only is None or options.only in row.name]
        if options.rows is not None:
            seed, count = options.rows
            chosen = Random(f"protocol rows/{seed}").sample(chosen, min(count, len(chosen)))
        if not chosen:
            # Without a test to run, pytest would run all of them.
            problems.append("there is no such row to try")
        elif run_tests(sorted({name for row in chosen for name in row.tests})) != 0:
            problems.append("the tests of the rows fail although nothing was taken away")
        for row in chosen:
            problem = is_noticed(row)
            print(f"{row}: {problem or 'noticed'}", flush=True)
            if problem:
                problems.append(f"{row}: {problem}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
