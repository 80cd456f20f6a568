"""A trace in which a member neither sends nor receives for long, by traces written by hand."""

import json
from pathlib import Path

import pytest

from upheaval.checkers.evidence.absence import check_absence
from upheaval.checkers.evidence.trace_facts import facts_of_members
from upheaval.records import Json, Manifest, RunFolder
from upheaval_node.types import S

UNEXPLAINED = "is the first line of an election or a message for"


def life(begin: float, end: float) -> list[dict[str, Json]]:
    """A process that hears its leader twice a second."""
    start: dict[str, Json] = {"ts": int(begin * S), "component": "all", "event": "process-start"}
    beats = [int((begin + n / 2) * S) for n in range(int(2 * (end - begin)) + 1)]
    return [start, *({"ts": ns, "component": "all", "event": "receive", "message": "CommitPosition"} for ns in beats)]


def ended(begin: float, end: float) -> list[dict[str, Json]]:
    """The same, and it traced its end."""
    return [*life(begin, end), {"ts": int(end * S), "component": "all", "event": "process-end", "status": 0}]


def gap(one: float, other: float) -> list[dict[str, Json]]:
    """A process that hears nothing between two moments, up to the end at 100 s."""
    return [*life(0, one), *life(other, 100)[1:]]


@pytest.mark.parametrize(
    ("trace", "others", "is_explained"),
    [
        (gap(20, 24), [life(0, 100)], True),
        (gap(20, 30), [life(0, 100)], False),
        (gap(20, 30), [[*ended(0, 20), *life(29, 100)]], True),
        (gap(20, 40), [[*ended(0, 20), *life(30, 100)]], False),
        (gap(20, 30), [[*ended(0, 20), *life(29, 100)], life(0, 100)], False),
        (gap(20, 30), [[*ended(0, 20), *life(29, 100)], [*ended(0, 21), *life(28, 100)]], True),
        (gap(20, 30), [[*life(0, 20), *life(29, 100)]], False),
        (gap(90, 100), [ended(0, 99)], False),
        (gap(1, 10), [life(2, 100)], False),
    ],
)
def test_a_member_hears_nothing_while_no_other_runs(
    trace: list[dict[str, Json]], others: list[list[dict[str, Json]]], is_explained: bool, tmp_path: Path
) -> None:
    """Another member that ran for a part of the gap explains no more than GAP_NS of the rest."""
    run = RunFolder(tmp_path)
    members = 1 + len(others)
    run.create(Manifest("run-1", "process", members, "test", 1))
    for member_id, lines in enumerate([trace, *others]):
        run.member(member_id).path.mkdir()
        run.member(member_id).trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    finding = check_absence(run, run.read_manifest(), facts_of_members(run, members))
    assert (UNEXPLAINED not in finding.detail) is is_explained, finding.detail
