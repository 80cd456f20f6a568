"""How long a member was in an election, by its trace."""

import json
from pathlib import Path

import pytest

from upheaval.checkers.evidence.spans import spans_of
from upheaval.records import Json, MemberFolder

S = 10**9


def line(second: int, event: str, **fields: Json) -> dict[str, Json]:
    return {"ts": second * S, "event": event, "component": "consensus", **fields}


ELECTION = [line(1, "process-start"), line(2, "election_state", state="FOLLOWER_LOG_AWAIT")]
CLOSED = line(3, "module_state", old="ACTIVE", new="CLOSED")
STALL = line(40, "loop-stall")


@pytest.mark.parametrize(
    ("rest", "end"),
    [
        ([CLOSED, STALL, line(41, "process-end", status=0)], 40),
        ([CLOSED, STALL, line(50, "process-start")], 40),
        ([CLOSED, STALL], None),
        ([line(30, "election_state", state="CLOSED", leader_member_id=1), CLOSED, STALL], 30),
    ],
    ids=["ends", "is started again", "goes on", "had joined"],
)
def test_a_module_that_closes_within_an_election_is_in_it_until_its_process_ends(
    rest: list[dict[str, Json]], end: int | None, tmp_path: Path
) -> None:
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(each) + "\n" for each in [*ELECTION, *rest]))
    (election,) = spans_of(MemberFolder(tmp_path, 0)).elections
    assert election.begin_ns == 2 * S
    assert (election.closed_ns == 3 * S) is (CLOSED in rest[:1])
    assert election.end_ns == S * end if end is not None else election.end_ns > 10**6 * S


FELL = line(3, "commit-went-back", old=640, new=320)


@pytest.mark.parametrize(
    ("before", "has_fallen"),
    [
        ([FELL], True),
        ([], False),
        ([FELL, line(4, "process-start")], False),
    ],
    ids=["of this process", "never", "of a process before"],
)
def test_an_election_of_a_process_whose_commit_position_has_fallen_says_so(
    before: list[dict[str, Json]], has_fallen: bool, tmp_path: Path
) -> None:
    events = [*ELECTION, *before, line(5, "election_state", state="LEADER_REPLAY")]
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(each) + "\n" for each in events))
    election = spans_of(MemberFolder(tmp_path, 0)).elections[-1]
    assert election.state == "LEADER_REPLAY"
    assert election.has_commit_fallen is has_fallen
