"""A member notices the silence of its leader, or of its followers, in time: by its trace alone, except for faults."""

import json
from pathlib import Path

import pytest

from upheaval.checkers.evidence.trace_facts import facts_of_members
from upheaval.checkers.evidence.troubles import MARGIN_NS, failover_ns, timeouts_of
from upheaval.checkers.liveness.bounds import check_bounds
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import Manifest, RunFolder
from upheaval_chaos.record import FaultRecord
from upheaval_node.trace_kinds import ElectionCause, TraceKind
from upheaval_node.types import MS, S

TERM = 3
MANIFEST = Manifest("run-1", "process", 3, "test", 1)
ALLOWED_S = (timeouts_of(MANIFEST).leader_heartbeat_ns + MARGIN_NS) / S
BEGIN_S = 1.0
LATE_S = BEGIN_S + ALLOWED_S + 0.5
IN_TIME_S = BEGIN_S + ALLOWED_S - 0.1


def line(second: float, event: str, **fields: object) -> str:
    return json.dumps({"ts": int(second * S), "epoch_ms": int(second * 1000), "event": event, **fields}) + "\n"


def elected(leader: int) -> str:
    fields = {"leadership_term_id": TERM, "leader_member_id": leader, "component": "node"}
    return (
        line(0, TraceKind.PROCESS_START, component="node")
        + line(BEGIN_S, TraceKind.LEADERSHIP_TERM, source="election", **fields)
        + line(BEGIN_S, TraceKind.ELECTION_STATE, state="CLOSED", **fields)
    )


def append_position(second: float, follower: int, term: int = TERM) -> str:
    fields = {"message": "AppendPosition", "leadership_term_id": term, "follower_member_id": follower}
    return line(second, TraceKind.RECEIVE, **fields)


def commit_position(second: float) -> str:
    fields = {"message": "CommitPosition", "leadership_term_id": TERM, "leader_member_id": 0}
    return line(second, TraceKind.RECEIVE, **fields)


def gives_up(second: float, cause: ElectionCause) -> str:
    return line(second, TraceKind.ELECTION_STATE, state="INIT", reason=cause, leadership_term_id=TERM)


def leads_until(second: float) -> str:
    """A leader that sends its heartbeats, and gives up its followers then."""
    sent = {"message": "CommitPosition", "leadership_term_id": TERM, "leader_member_id": 0}
    beats = "".join(line(BEGIN_S + n / 2, TraceKind.SEND, **sent) for n in range(int(2 * (second - BEGIN_S)) + 1))
    return beats + gives_up(second, ElectionCause.FOLLOWERS_SILENT)


def run_with(path: Path, leader: str, follower: str, *faults: FaultRecord) -> RunFolder:
    """Member 0 was elected, and member 1 follows it. Member 2 has no trace."""
    run = RunFolder(path)
    run.create(MANIFEST)
    for member_id, lines in enumerate((leader, follower)):
        run.member(member_id).path.mkdir()
        in_order = sorted((elected(0) + lines).splitlines(keepends=True), key=lambda each: int(json.loads(each)["ts"]))
        run.member(member_id).trace.write_text("".join(in_order))
    for fault in faults:
        run.add_fault(fault)
    return run


def judged(run: RunFolder) -> Finding:
    (result,) = check_bounds(run, MANIFEST, facts_of_members(run, MANIFEST.members))
    assert isinstance(result, Finding)
    assert result.promise is Promise.BOUNDS_KEPT
    return result


FOLLOWER_LATE = gives_up(LATE_S, ElectionCause.LEADER_SILENT)
FOLLOWER_IN_TIME = gives_up(IN_TIME_S, ElectionCause.LEADER_SILENT)


def cut_off(what: str, *members: int) -> FaultRecord:
    return FaultRecord(what, "links", S, S, int(LATE_S * S), int(LATE_S * S), members=members)


def test_members_that_give_up_in_time_are_good(tmp_path: Path) -> None:
    run = run_with(tmp_path, leads_until(IN_TIME_S), FOLLOWER_IN_TIME)
    assert judged(run).verdict is Verdict.VALID


@pytest.mark.parametrize(
    "faults", [(), (cut_off("blackhole", 0, 1),), (cut_off("kill", 2),)], ids=["none", "cut", "kill"]
)
def test_a_follower_that_waits_for_too_long_is_found(tmp_path: Path, faults: tuple[FaultRecord, ...]) -> None:
    run = run_with(tmp_path, leads_until(IN_TIME_S), FOLLOWER_LATE, *faults)
    found = judged(run)
    assert (found.verdict, found.members, found.late_ms) == (Verdict.INVALID, (1,), 500)
    assert "member 1 stayed a follower for 2500 ms without hearing from its leader" in found.detail


def asked_to_end(second: float, term: int = TERM) -> str:
    return line(second, TraceKind.RECEIVE, message="TerminationPosition", leadership_term_id=term)


PATIENCE_S = timeouts_of(MANIFEST).termination_ns / S


@pytest.mark.parametrize(
    ("asked", "late_s", "verdict"),
    [
        (asked_to_end(BEGIN_S), PATIENCE_S - 0.1, Verdict.VALID),
        (asked_to_end(BEGIN_S), PATIENCE_S + 0.5, Verdict.INVALID),
        (asked_to_end(BEGIN_S, TERM - 1), 0.5, Verdict.INVALID),
        (asked_to_end(BEGIN_S - 0.5), 0.5, Verdict.INVALID),
        (asked_to_end(BEGIN_S + ALLOWED_S + 0.5), 0.6, Verdict.INVALID),
    ],
    ids=["in time", "late", "of another term", "before it followed", "when it was late already"],
)
def test_a_follower_that_was_asked_to_end_may_wait_a_termination_time_out_longer(
    asked: str, late_s: float, verdict: Verdict, tmp_path: Path
) -> None:
    """Seed 4000062: the leader ended the cluster, and a follower without the end of the log was left behind."""
    silent = asked + gives_up(BEGIN_S + ALLOWED_S + late_s, ElectionCause.LEADER_SILENT)
    assert judged(run_with(tmp_path, leads_until(IN_TIME_S), silent)).verdict is verdict


def test_a_follower_that_hears_its_leader_again_is_found_too(tmp_path: Path) -> None:
    run = run_with(tmp_path, leads_until(IN_TIME_S), commit_position(LATE_S))
    assert judged(run).members == (1,)


def test_a_leader_that_stays_without_a_quorum_is_found(tmp_path: Path) -> None:
    found = judged(run_with(tmp_path, leads_until(LATE_S), FOLLOWER_IN_TIME))
    assert (found.verdict, found.members) == (Verdict.INVALID, (0,))
    assert "member 0 stayed a leader for 2500 ms without hearing from a quorum" in found.detail


@pytest.mark.parametrize("term", [TERM, TERM - 1])
def test_any_follower_makes_a_quorum_of_three(tmp_path: Path, term: int) -> None:
    """Of whatever term: a follower that catches up names the one that it has reached."""
    leader = append_position(2, 2, term) + leads_until(LATE_S)
    run = run_with(tmp_path, leader, FOLLOWER_IN_TIME)
    assert judged(run).verdict is Verdict.VALID


@pytest.mark.parametrize("fault", [cut_off("pause", 1), cut_off("disk-full", 1), cut_off("kill")], ids=lambda f: f.what)
def test_a_member_with_a_fault_of_its_own_may_be_late(tmp_path: Path, fault: FaultRecord) -> None:
    run = run_with(tmp_path, leads_until(IN_TIME_S), FOLLOWER_LATE, fault)
    assert judged(run).verdict is Verdict.VALID


STAYS = line(LATE_S + 20, TraceKind.SEND, message="AppendPosition", component="node")
"""A member that goes on in its term, for long."""


@pytest.mark.parametrize("last", ["", line(99, TraceKind.PROCESS_START)], ids=["ends", "starts again"])
@pytest.mark.parametrize("faults", [(), (cut_off("blackhole", 0, 1),)], ids=["none", "cut"])
def test_a_follower_that_never_gives_up_is_found(last: str, faults: tuple[FaultRecord, ...], tmp_path: Path) -> None:
    found = judged(run_with(tmp_path, leads_until(IN_TIME_S), STAYS + last, *faults))
    assert (found.verdict, found.members, found.late_ms) == (Verdict.INVALID, (1,), 20_500)


@pytest.mark.parametrize("last", ["", line(99, TraceKind.PROCESS_START)], ids=["ends", "starts again"])
def test_a_process_that_ends_in_time_may_have_been_silent(last: str, tmp_path: Path) -> None:
    """What other processes of its member write shows nothing, nor does a stall up to its end."""
    end = line(IN_TIME_S, TraceKind.SEND, message="AppendPosition", component="node")
    stall = line(LATE_S + 20, TraceKind.LOOP_STALL, stall_ns=20 * S, component="node")
    other = line(LATE_S + 20, TraceKind.PROCESS_END, status=0, component="archive")
    for name, lines in (("all", end), ("stall", end + stall), ("other", end + other)):
        run = run_with(tmp_path / name, leads_until(IN_TIME_S), lines + last)
        assert judged(run).verdict is Verdict.VALID, name


def hit(begin_s: float, end_s: float | None, *members: int, what: str = "pause") -> FaultRecord:
    begin_ns, end_ns = int(begin_s * S), None if end_s is None else int(end_s * S)
    return FaultRecord(what, "", begin_ns, begin_ns, end_ns, end_ns, members=members)


RECOVERED_S = failover_ns(timeouts_of(MANIFEST)) / S


@pytest.mark.parametrize(
    ("faults", "verdict", "late_s"),
    [
        ((hit(LATE_S, None, 1, what="kill"),), Verdict.INVALID, 0.5),
        ((hit(IN_TIME_S, None, 1),), Verdict.VALID, 0),
        ((hit(2, 3, 1),), Verdict.INVALID, LATE_S + 20 - 3 - RECOVERED_S - ALLOWED_S),
        ((hit(2, LATE_S + 20 - RECOVERED_S - ALLOWED_S, 1),), Verdict.VALID, 0),
        (tuple(hit(second, second + 0.5, 1) for second in range(2, 40, 7)), Verdict.VALID, 0),
    ],
    ids=["killed late", "paused", "recovered", "recovers", "again and again"],
)
def test_faults_explain_a_lapse_only_while_they_last(
    faults: tuple[FaultRecord, ...], verdict: Verdict, late_s: float, tmp_path: Path
) -> None:
    found = judged(run_with(tmp_path, leads_until(IN_TIME_S), STAYS, *faults))
    assert found.verdict is verdict
    assert found.late_ms == -(-int(late_s * S) // MS)


def silent_leader(path: Path, *faults: FaultRecord, until_s: float = 40) -> Finding:
    """It hears its follower, which hears it, and sends a heartbeat before and after the faults alone."""
    sent = {"message": "CommitPosition", "leadership_term_id": TERM, "leader_member_id": 0, "component": "node"}
    times = [BEGIN_S + n / 2 for n in range(int(2 * until_s))]
    leader = line(BEGIN_S, TraceKind.SEND, **sent) + "".join(append_position(second, 1) for second in times)
    run = run_with(path, leader + line(until_s, TraceKind.SEND, **sent), "".join(map(commit_position, times)), *faults)
    return judged(run)


@pytest.mark.parametrize(
    ("faults", "verdict"),
    [
        ((), Verdict.INVALID),
        ((hit(39, 39.5, 0),), Verdict.INVALID),
        ((hit(20, 20.5, 1), hit(30, 30.5, 1)), Verdict.INVALID),
        ((hit(BEGIN_S + 0.5, 39.5, 0),), Verdict.VALID),
        ((hit(BEGIN_S + 0.5, None, 1),), Verdict.VALID),
        (tuple(hit(second, second + 0.5, 0) for second in range(1, 40, 5)), Verdict.VALID),
    ],
    ids=["none", "at its end", "of its follower", "of the leader", "no quorum", "again and again"],
)
def test_faults_explain_a_silent_leader_only_while_they_last(
    faults: tuple[FaultRecord, ...], verdict: Verdict, tmp_path: Path
) -> None:
    found = silent_leader(tmp_path, *faults)
    assert found.verdict is verdict, found
    assert ("sent no heartbeat for" in found.detail) is (verdict is Verdict.INVALID)


def test_a_module_that_is_not_active_does_not_look(tmp_path: Path) -> None:
    snapshot = line(2, TraceKind.MODULE_STATE, old="ACTIVE", new="SNAPSHOT")
    active = line(3, TraceKind.MODULE_STATE, old="SNAPSHOT", new="ACTIVE")
    run = run_with(tmp_path, snapshot + active + leads_until(LATE_S), FOLLOWER_IN_TIME)
    assert judged(run).verdict is Verdict.VALID


@pytest.mark.parametrize(("stall_ms", "verdict"), [(200, Verdict.INVALID), (300, Verdict.UNKNOWN)])
def test_stalls_of_the_member_explain_it(tmp_path: Path, stall_ms: int, verdict: Verdict) -> None:
    """Two of them, of a silence that is 500 ms too long."""
    stalls = "".join(line(second, TraceKind.LOOP_STALL, stall_ns=stall_ms * MS) for second in (2, 3))
    run = run_with(tmp_path, leads_until(IN_TIME_S), stalls + FOLLOWER_LATE)
    assert judged(run).verdict is verdict


def test_an_explained_silence_of_a_leader_hides_no_late_follower(tmp_path: Path) -> None:
    """The leader's stall explains why it sent nothing. Nothing explains why the follower waited."""
    stall = append_position(2, 1) + line(LATE_S - 0.5, TraceKind.LOOP_STALL, stall_ns=int(ALLOWED_S * S))
    beat = line(LATE_S - 0.4, TraceKind.SEND, message="CommitPosition", leadership_term_id=TERM, leader_member_id=0)
    run = run_with(tmp_path, stall + beat + gives_up(LATE_S - 0.3, ElectionCause.FOLLOWERS_SILENT), FOLLOWER_LATE)
    finding = judged(run)
    assert (finding.verdict, finding.members) == (Verdict.INVALID, (1,))


@pytest.mark.parametrize("after_s", [0.001, ALLOWED_S - 1.1])
def test_a_follower_that_gives_up_its_leader_soon_after_it_joined_is_found(after_s: float, tmp_path: Path) -> None:
    """It has heard nothing since."""
    early = gives_up(BEGIN_S + after_s, ElectionCause.LEADER_SILENT)
    finding = judged(run_with(tmp_path, leads_until(BEGIN_S), early))
    assert finding.verdict is Verdict.INVALID
    assert "member 1 began an election because its leader was silent" in finding.detail


def test_a_leader_that_gives_up_followers_that_reported_before_its_election_ended_is_found(tmp_path: Path) -> None:
    heard = append_position(BEGIN_S - 0.2, 1)
    assert judged(run_with(tmp_path / "new", heard + leads_until(BEGIN_S + 0.2), "")).verdict is Verdict.INVALID
    heard = append_position(BEGIN_S - 0.2, 1, TERM - 1)
    assert judged(run_with(tmp_path / "old", heard + leads_until(BEGIN_S + 0.2), "")).verdict is Verdict.VALID


def test_a_follower_gives_up_its_leader_a_time_out_after_it_joined(tmp_path: Path) -> None:
    heartbeat_s = timeouts_of(MANIFEST).leader_heartbeat_ns / S
    in_time = gives_up(BEGIN_S + heartbeat_s, ElectionCause.LEADER_SILENT)
    assert judged(run_with(tmp_path, leads_until(BEGIN_S + heartbeat_s), in_time)).verdict is Verdict.VALID
