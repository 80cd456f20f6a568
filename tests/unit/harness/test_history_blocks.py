"""A history in blocks has the operations of its lines, and the same error for the first malformed one."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from upheaval.checkers.history.columns import History
from upheaval.errors import UsageError
from upheaval.records import read_history

PLAIN: dict[str, Any] = {
    "id": 0,
    "process": 1,
    "f": "write",
    "key": "k",
    "value": 5,
    "invoke_ns": 10,
    "complete_ns": 20,
    "outcome": "ok",
    "result": None,
    "position": 96,
}
DIGEST = "0" * 64
BEFORE, AFTER = 70, 3
"""Lines around the one in question, which is then in the second block."""


def line(**changes: object) -> bytes:
    return json.dumps({**PLAIN, **changes}).encode() + b"\n"


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in PLAIN.items() if key != name}).encode() + b"\n"


def result_of(path: Path, lines: Sequence[bytes]) -> tuple[str, str]:
    """What the history in blocks comes to, and what the lines one by one come to."""
    path.write_bytes(b"".join(lines))
    results = []
    for read in (
        lambda: [str(each) for each in History.read(path)],
        lambda: [str(each) for each in read_history(path)],
    ):
        try:
            results.append("\n".join(read()))
        except UsageError as error:
            results.append(f"error: {error}")
    return results[0], results[1]


GOOD = [
    line(id=500),
    line(id=500, session=3, matched=None),
    line(id=500, f="call", value=DIGEST, result="ok", matched=True),
    line(id=500, f="cas", value=[None, 1], result=True),
    line(id=500, outcome="fail", complete_ns=None, position=None),
    line(id=500, outcome="unknown", complete_ns=None),
    line(id=500, outcome="unknown", complete_ns=5),
    line(id=500, value="\ud800"[:0] + "\u20ac"),
    line(id=500, more=1),
    without("result").replace(b'"id": 0', b'"id": 500'),
    without("value").replace(b'"id": 0', b'"id": 500'),
    without("complete_ns").replace(b'"id": 0, ', b'"id": 500, ').replace(b'"ok"', b'"unknown"'),
    b" " + line(id=500),
    line(id=500).replace(b"\n", b" \n"),
    line(id=500, value=float("nan")),
]
BAD = [
    b"\n",
    b"{}\n",
    b"[]\n",
    b"null\n",
    b'"text"\n',
    b"{\n",
    b"\xff\n",
    line(id=500)[:-10] + b"\n",
    line(id=500)[:-1] + line(id=501),
    line(id=500).replace(b", ", b",\n", 1),
    line(id=500, value="\ud800").replace(b"\\\\", b"\\"),
    line(id=3),
    line(id="500"),
    line(id=True),
    line(id=500.0),
    line(id=500, process=None),
    line(id=500, f="enqueue"),
    line(id=500, f="other"),
    line(id=500, f=3),
    line(id=500, f=["write"]),
    line(id=500, outcome="maybe"),
    line(id=500, key=None),
    line(id=500, complete_ns=5),
    line(id=500, complete_ns=None),
    line(id=500, complete_ns="20"),
    line(id=500, position=1.5),
    line(id=500, session="1"),
    line(id=500, matched=1),
    line(id=500, f="cas", value=[1]),
    line(id=500, f="transfer", value=7),
    line(id=500, f="call", value="0" * 63),
    line(id=500, f="call", value=None),
    *(without(name) for name in ("id", "process", "f", "key", "invoke_ns", "outcome", "complete_ns")),
]


@pytest.mark.parametrize("questioned", [*GOOD, *BAD])
@pytest.mark.parametrize("has_other_before", [False, True])
def test_a_line_is_read_in_a_block_as_it_is_alone(questioned: bytes, has_other_before: bool, tmp_path: Path) -> None:
    lines = [line(id=number) for number in range(BEFORE + AFTER)]
    if has_other_before:
        # Without a field that may be left out: all of its block are then read one by one.
        lines[BEFORE - 1] = lines[BEFORE - 1].replace(b', "result": null', b"")
    lines.insert(BEFORE, questioned)
    in_blocks, alone = result_of(tmp_path / "history.jsonl", lines)
    assert in_blocks == alone
    assert alone.startswith("error: ") is (questioned in BAD)


def test_lines_that_make_up_for_each_other_are_still_malformed(tmp_path: Path) -> None:
    """An object over two lines, and two objects on one."""
    spread = line(id=500).replace(b", ", b",\n", 1).splitlines(keepends=True)
    lines = [line(id=1), *spread, line(id=501)[:-1] + b" " + line(id=502)]
    in_blocks, alone = result_of(tmp_path / "history.jsonl", lines)
    assert in_blocks == alone
    assert "history.jsonl:2: not JSON" in alone


@pytest.mark.parametrize("last", [line(id=500)[:-1], line(id=500)[:-5], b""])
def test_the_last_line_may_lack_its_end(last: bytes, tmp_path: Path) -> None:
    in_blocks, alone = result_of(tmp_path / "history.jsonl", [line(id=1), last])
    assert in_blocks == alone
