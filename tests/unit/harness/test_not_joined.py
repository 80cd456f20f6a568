"""The signature of a member that does not join: its election state, and what its consensus module had shown before."""

import json
from pathlib import Path

import pytest

from upheaval.checkers.evidence.spans import spans_of
from upheaval.checkers.evidence.trace_facts import facts_of_members
from upheaval.checkers.known_bugs import recognised
from upheaval.checkers.liveness.joining import check_joining
from upheaval.checkers.signature import COMMIT_FELL, MODULE_CLOSED, Rule, Signature
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import Json, Manifest, RunFolder

S = 10**9


def line(second: int, event: str, **fields: Json) -> dict[str, Json]:
    return {"ts": second * S, "event": event, "component": "all", **fields}


LEADS = [
    line(1, "process-start"),
    line(10, "election_state", state="CLOSED", leader_member_id=0),
    line(200, "loop-stall", stall_ns=0),
]
BEGINS = line(1, "process-start")
REPLAYS = line(3, "election_state", state="LEADER_REPLAY")
FELL = line(2, "commit-went-back", old=640, new=320)
CLOSED = line(4, "module_state", old="ACTIVE", new="CLOSED")
GOES_ON = line(200, "loop-stall", stall_ns=0)


def result_of(path: Path, *traces: list[dict[str, Json]]) -> Finding:
    run = RunFolder(path)
    run.create(Manifest("run-1", "process", len(traces), "test", 0, system="aeron:1.49.3"))
    for member_id, events in enumerate(traces):
        run.member(member_id).path.mkdir()
        run.member(member_id).trace.write_text("".join(json.dumps(each) + "\n" for each in events))
    spans = [spans_of(run.member(member_id)) for member_id in range(len(traces))]
    (result,) = check_joining(run, run.read_manifest(), facts_of_members(run, len(traces)), spans)
    assert isinstance(result, Finding)
    assert result.verdict is Verdict.INVALID
    return result


@pytest.mark.parametrize(
    ("stays", "entry", "known"),
    [
        ([FELL, REPLAYS], COMMIT_FELL, "Aeron before commit a9d7215d74"),
        ([REPLAYS], "", ""),
        ([FELL, REPLAYS, CLOSED], MODULE_CLOSED, "Aeron before commit a5d5072d5f"),
    ],
)
def test_a_member_that_replays_without_end_has_the_signature_of_what_it_showed(
    stays: list[dict[str, Json]], entry: str, known: str, tmp_path: Path
) -> None:
    result = result_of(tmp_path, LEADS, [BEGINS, *stays, GOES_ON])
    assert result.signature == Signature(Rule.NOT_JOINED, state="LEADER_REPLAY", entry=entry)
    (marked,) = recognised([result], ["aeron:1.49.3"])
    assert marked.known_cause == known


def test_a_member_that_stays_out_for_a_known_reason_hides_no_other(tmp_path: Path) -> None:
    result = result_of(tmp_path, LEADS, [BEGINS, FELL, REPLAYS, GOES_ON], [BEGINS, REPLAYS, GOES_ON])
    (marked,) = recognised([result], ["aeron:1.49.3"])
    assert (marked.members, marked.known) == ((0, 2), "")
    assert [(one.members, one.known_cause) for one in marked.besides] == [((0, 1), "Aeron before commit a9d7215d74")]
