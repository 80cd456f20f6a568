"""Which times the entries of a term may have, and what explains a time or a delay that would break a promise."""

import json
from pathlib import Path

import pytest

from upheaval.checkers.evidence.events import TermTimes
from upheaval.checkers.evidence.leader_clocks import leader_clocks
from upheaval.checkers.evidence.trace_facts import facts_of_members
from upheaval.checkers.liveness.bounds import check_bounds
from upheaval.checkers.liveness.log_time import judge_time
from upheaval.checkers.verdict import Verdict
from upheaval.errors import UsageError
from upheaval.records import Manifest, RunFolder
from upheaval_chaos.record import FaultRecord
from upheaval_node.trace_kinds import ElectionCause
from upheaval_node.types import NEVER_NS

S = 10**9
START_MS = 1_700_000_000_000


def line(second: float, event: str, *, moved_ms: int = 0, **fields: object) -> str:
    epoch_ms = START_MS + int(second * 1000) + moved_ms
    return json.dumps({"ts": int(second * S), "epoch_ms": epoch_ms, "event": event, **fields}) + "\n"


def heartbeat(second: float, member: int, term: int, *, sent: bool) -> str:
    event = "send" if sent else "receive"
    return line(second, event, message="CommitPosition", leadership_term_id=term, leader_member_id=member)


def elected(second: float, leader: int, term: int) -> str:
    fields = {"leadership_term_id": term, "leader_member_id": leader}
    return line(second, "election_state", state="CLOSED", **fields) + line(
        second, "leadership_term", source="election", **fields
    )


def times(*entries: tuple[int, int]) -> dict[int, TermTimes]:
    found = TermTimes.of(*entries[0])
    for entry in entries[1:]:
        found.add(*entry)
    return {3: found}


def led_run(path: Path, *, moved_ms: int = 0, jumped: bool = False) -> RunFolder:
    """Member 0 leads term 3 from second 1 to second 5; its clock is moved at second 3."""
    run = RunFolder(path)
    run.create(Manifest("run-1", "process", 1, "test", 0))
    run.member(0).path.mkdir()
    run.member(0).trace.write_text(
        elected(1, 0, 3)
        + line(3, "service-ack", moved_ms=moved_ms)
        + line(5, "election_state", moved_ms=moved_ms, state="INIT", leader_member_id=-1, leadership_term_id=3)
    )
    if jumped:
        run.add_fault(FaultRecord("clock-jump", "member-0", 2 * S, 2 * S, 3 * S, 3 * S, members=(0,)))
    return run


@pytest.mark.parametrize(("moved_ms", "jumped", "verdict"), [(0, False, 3), (-2500, False, 0), (0, True, 0)])
def test_only_the_leaders_clock_explains_a_step_back(moved_ms: int, jumped: bool, verdict: int, tmp_path: Path) -> None:
    run = led_run(tmp_path, moved_ms=moved_ms, jumped=jumped)
    found = times((96, START_MS + 1000), (192, START_MS + 4000), (288, START_MS + 1600))
    assert [finding.verdict for finding in judge_time(found, leader_clocks(run, 1), 0)] == [Verdict(verdict)]


@pytest.mark.parametrize(("time_unit", "factor"), [(0, 1), (1, 1000), (2, 1_000_000)])
def test_times_count_in_the_unit_of_the_cluster(time_unit: int, factor: int, tmp_path: Path) -> None:
    clocks = leader_clocks(led_run(tmp_path), 1)
    kept = times((96, (START_MS + 1000) * factor), (192, (START_MS + 5000) * factor))
    late = times((96, (START_MS + 1000) * factor), (192, (START_MS + 5100) * factor))
    assert judge_time(kept, clocks, time_unit)[0].verdict is Verdict.VALID
    assert "has a time 100 ms after member 0 had ceased to lead" in judge_time(late, clocks, time_unit)[0].detail


def test_a_leader_serves_from_the_end_of_its_election_on_while_its_module_is_active(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.member(0).path.mkdir()
    before = line(1, "election_state", state="LEADER_READY", leadership_term_id=0, leader_member_id=0)
    states = ((3, "SNAPSHOT"), (4, "ACTIVE"), (6, "SUSPENDED"))
    changes = [line(second, "module_state", old="X", new=state, moved_ms=7) for second, state in states]
    run.member(0).trace.write_text("".join([before, elected(2, 0, 0), *changes]))
    (clock,) = leader_clocks(run, 1)
    assert (clock.offset_ms, clock.ready_ns) == (START_MS, 2 * S)
    assert clock.busy == ((3 * S, 4 * S), (4 * S, 4 * S), (6 * S, NEVER_NS))


def judged(run: RunFolder) -> Verdict:
    (finding,) = check_bounds(run, run.read_manifest(), facts_of_members(run, run.read_manifest().members))
    return finding.verdict


def silent(path: Path, *last: str) -> RunFolder:
    """Member 0 leads, sends no heartbeat after second 2, and `last` is the end of its trace; the others are well, and
    give it up.
    """
    run = RunFolder(path)
    run.create(Manifest("run-1", "process", 3, "test", 0))
    given_up = line(3.5, "election_state", state="INIT", reason=ElectionCause.LEADER_SILENT, leadership_term_id=0)
    heard = [elected(1, 0, 0), heartbeat(2, 0, 0, sent=False), given_up, line(9, "service-ack")]
    beats = [heartbeat(second, 0, 0, sent=True) for second in (1.5, 2)]
    leader = [elected(1, 0, 0), *beats, appended(2, 1), *last]
    for member_id, lines in enumerate([leader, heard, heard]):
        run.member(member_id).path.mkdir()
        run.member(member_id).trace.write_text("".join(lines))
    return run


@pytest.mark.parametrize(
    ("last", "verdict"),
    [
        ([line(3.5, "service-ack")], Verdict.INVALID),
        ([line(3.5, "service-ack"), line(4, "process-start")], Verdict.INVALID),
        ([line(2.9, "service-ack"), line(4, "process-start")], Verdict.VALID),
        ([line(3.5, "service-ack", component="archive"), line(4, "process-start")], Verdict.VALID),
        ([line(3.5, "service-ack"), line(3.6, "process-end")], Verdict.VALID),
    ],
    ids=["ran on", "killed", "killed in time", "another process ran on", "ended in order"],
)
def test_a_silence_that_a_kill_ends_counts(last: list[str], verdict: Verdict, tmp_path: Path) -> None:
    assert judged(silent(tmp_path, *last)) is verdict


def test_time_outs_that_no_member_can_have_are_named(tmp_path: Path) -> None:
    run = silent(tmp_path)
    run.write_manifest(Manifest("run-1", "process", 3, "test", 0, timeouts={"patience": 1}))
    with pytest.raises(UsageError, match=r"timeouts\.patience is not a setting"):
        judged(run)


def gave_up(path: Path, second: float, reason: str, *heard: str, leads: int = 0, members: int = 3) -> RunFolder:
    """Member 1 begins an election at `second` for that reason; `heard` is what it received in the term of `leads`."""
    run = RunFolder(path)
    run.create(Manifest("run-1", "process", members, "test", 0))
    lines = [elected(1, leads, 0), *heard, line(second, "election_state", state="INIT", reason=reason)]
    for member_id in range(3):
        run.member(member_id).path.mkdir()
        own = lines if member_id == 1 else [elected(1, leads, 0), heartbeat(1.1, leads, 0, sent=member_id == leads)]
        run.member(member_id).trace.write_text("".join(own))
    return run


def appended(second: float, follower: int, term: int = 0) -> str:
    fields = {"message": "AppendPosition", "leadership_term_id": term, "follower_member_id": follower}
    return line(second, "receive", **fields)


@pytest.mark.parametrize(
    ("second", "heard", "verdict"),
    [
        (3.9, [heartbeat(3, 0, 0, sent=False)], Verdict.INVALID),
        (4, [heartbeat(3, 0, 0, sent=False)], Verdict.VALID),
        (3.9, [heartbeat(2.5, 0, 0, sent=False), heartbeat(3, 0, 1, sent=False)], Verdict.VALID),
        (3.9, [heartbeat(2.5, 0, 0, sent=False), heartbeat(3, 2, 0, sent=False)], Verdict.VALID),
        (2.9, [], Verdict.VALID),
    ],
    ids=["too early", "in time", "another term", "another leader", "never heard"],
)
def test_a_follower_gives_up_a_leader_that_is_silent(
    second: float, heard: list[str], verdict: Verdict, tmp_path: Path
) -> None:
    assert judged(gave_up(tmp_path / "1", second, "leader heartbeat timeout", *heard)) is verdict
    assert judged(gave_up(tmp_path / "2", second, "log disconnected", *heard)) is Verdict.VALID


@pytest.mark.parametrize(
    ("second", "heard", "verdict"),
    [
        (3.5, [appended(2, 0), appended(3, 2)], Verdict.INVALID),
        (3.5, [appended(2, 0), appended(2, 2)], Verdict.VALID),
        (3.5, [appended(2, 0), appended(3, 2, term=1)], Verdict.VALID),
        (2.9, [], Verdict.VALID),
    ],
    ids=["one is heard", "none is", "in another term", "never heard"],
)
def test_a_leader_gives_up_when_a_quorum_is_silent(
    second: float, heard: list[str], verdict: Verdict, tmp_path: Path
) -> None:
    beats = [heartbeat(1 + tenth / 10, 1, 0, sent=True) for tenth in range(25)]
    lines = sorted([*heard, *beats], key=lambda each: int(json.loads(each)["ts"]))
    run = gave_up(tmp_path / "of 3", second, "inactive follower quorum", *lines, leads=1)
    assert judged(run) is verdict
    of_five = gave_up(tmp_path / "of 5", second, "inactive follower quorum", *lines, leads=1, members=5)
    assert judged(of_five) is Verdict.VALID
