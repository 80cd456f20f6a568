"""A trace in which a member neither sends nor receives for long, by traces written by hand."""

import json
from pathlib import Path

import pytest

from upheaval.checkers.evidence.absence import check_absence
from upheaval.checkers.evidence.trace_facts import facts_of_members
from upheaval.records import Json, Manifest, RunFolder
from upheaval_chaos.record import FaultRecord, Proof
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


def ends(what: str, begin: float, until: float) -> FaultRecord:
    """A fault that ends members 1 and 2."""
    seen = Proof(True, "seen")
    begin_ns, until_ns = int(begin * S), int(until * S)
    return FaultRecord(what, "x", begin_ns, until_ns, until_ns, until_ns, seen, seen, members=(1, 2))


def gap(one: float, other: float) -> list[dict[str, Json]]:
    """A process that hears nothing between two moments, up to the end at 100 s."""
    return [*life(0, one), *life(other, 100)[1:]]


def judged(path: Path, *traces: list[dict[str, Json]], faults: tuple[FaultRecord, ...] = ()) -> str:
    """The detail of the promise, by the traces of all members."""
    run = RunFolder(path)
    run.create(Manifest("run-1", "process", len(traces), "test", 1))
    for member_id, lines in enumerate(traces):
        run.member(member_id).path.mkdir()
        run.member(member_id).trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for fault in faults:
        run.add_fault(fault)
    return check_absence(run, run.read_manifest(), facts_of_members(run, len(traces))).detail


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
    detail = judged(tmp_path, trace, *others)
    assert (UNEXPLAINED not in detail) is is_explained, detail


@pytest.mark.parametrize(
    ("trace", "ran_until", "fault", "is_explained"),
    [
        (gap(20, 51), 20, ends("kill", 20, 20), True),
        (gap(20, 51), 20, ends("damage", 20, 30), True),
        (gap(30, 51), 30, ends("stop", 20, 30), True),
        (gap(20, 51), 20, ends("pause", 20, 20), False),
        (gap(20, 51), 20, ends("kill", 40, 40), False),
        (gap(15, 49), 49, ends("die-in-change", 10, 10.1), False),
    ],
)
def test_a_fault_ends_a_process_when_it_begins_or_at_its_last_line(
    trace: list[dict[str, Json]], ran_until: float, fault: FaultRecord, is_explained: bool, tmp_path: Path
) -> None:
    """`damage` looks at all files before it is over, and a process dies long after `die-in-change` was armed."""
    other = [*life(0, ran_until), *life(50, 100)]
    detail = judged(tmp_path, trace, other, other, faults=(fault,))
    assert (UNEXPLAINED not in detail) is is_explained, detail
