"""How long a quorum may have no leader, after which ends of the one before, and what explains a longer time."""

import json
from pathlib import Path

import pytest

from upheaval.checkers.evidence.spans import spans_of
from upheaval.checkers.evidence.trace_facts import facts_of_members
from upheaval.checkers.liveness.leaderless import check_leaderless
from upheaval.checkers.verdict import Verdict
from upheaval.records import Manifest, RunFolder
from upheaval_chaos.record import FaultRecord, Proof

S = 10**9


def line(second: float, event: str, **fields: object) -> str:
    return json.dumps({"ts": int(second * S), "epoch_ms": int(second * 1000), "event": event, **fields}) + "\n"


def elected(second: float, leader: int) -> str:
    return line(second, "election_state", state="CLOSED", leader_member_id=leader)


def election(second: float) -> str:
    return line(second, "election_state", state="CANVASS", leader_member_id=-1)


def ended(second: float, status: int = 0) -> str:
    return line(second, "module_state", new="CLOSED") + line(second + 0.1, "process-end", status=status)


def failover(path: Path, next_second: float, *last: str, others: tuple[str, ...] = ()) -> RunFolder:
    """Member 0 leads from second 1 on, and `last` is the end of its trace; member 1 leads from `next_second` on.

    Member 2 tells of `others`, too.
    """
    run = RunFolder(path)
    run.create(Manifest("run-1", "process", 3, "test", 0))
    follower = [elected(1, 0), election(2.5), elected(next_second, 1)]
    traces = [[elected(1, 0), *last], follower, [*follower, *others, line(next_second + 0.1, "service-ack")]]
    for member_id, lines in enumerate(traces):
        run.member(member_id).path.mkdir()
        run.member(member_id).trace.write_text(line(0, "process-start") + "".join(lines))
    return run


def hit(
    run: RunFolder,
    what: str,
    begin: float,
    end: float,
    member_id: int = 0,
    component: str | None = None,
    *,
    is_seen: bool = True,
) -> RunFolder:
    begin_ns, end_ns = int(begin * S), int(end * S)
    proof = Proof(holds=is_seen, evidence="")
    record = FaultRecord(what, "", begin_ns, begin_ns, end_ns, end_ns, proof, members=(member_id,), component=component)
    run.add_fault(record)
    return run


def judged(run: RunFolder) -> tuple[Verdict, str]:
    manifest = run.read_manifest()
    spans = [spans_of(run.member(member_id)) for member_id in range(manifest.members)]
    (finding,) = check_leaderless(run, manifest, facts_of_members(run, manifest.members), spans)
    return finding.verdict, finding.detail


@pytest.mark.parametrize(("second", "verdict"), [(6.9, Verdict.VALID), (7.1, Verdict.INVALID)])
@pytest.mark.parametrize("what", ["gives up", "kill", "power-cut", "pause"])
def test_a_failover_may_take_what_the_time_outs_allow(
    what: str, second: float, verdict: Verdict, tmp_path: Path
) -> None:
    """The leader is gone from second 2 on."""
    run = failover(tmp_path, second, *([election(2)] if what == "gives up" else []))
    found, detail = judged(run if what == "gives up" else hit(run, what, 2, 30))
    assert found is verdict
    assert ("no member led for 5100 ms while members 1, 2 were healthy" in detail) == (verdict is Verdict.INVALID)


@pytest.mark.parametrize(
    ("end", "second", "verdict"),
    [
        (ended(2), 5.9, Verdict.VALID),
        (ended(2), 6.1, Verdict.INVALID),
        # It did not come to an orderly end, so that the others had to miss it.
        (ended(2, status=8), 6.1, Verdict.VALID),
        (line(2, "module_state", new="TERMINATING") + ended(2), 6.1, Verdict.VALID),
    ],
    ids=["in time", "late", "cut short", "with its cluster"],
)
def test_the_end_of_its_log_tells_of_the_end_of_a_leader(
    end: str, second: float, verdict: Verdict, tmp_path: Path
) -> None:
    found, detail = judged(hit(failover(tmp_path, second, end), "stop", 1.9, 30))
    assert found is verdict
    assert ("after the orderly end of member 0, the leader before," in detail) == (verdict is Verdict.INVALID)


def test_a_quorum_that_never_finds_a_leader_is_seen_without_the_next_one(tmp_path: Path) -> None:
    run = failover(tmp_path, 3, election(2))
    for member_id in (1, 2):
        run.member(member_id).trace.write_text(elected(1, 0) + election(2.5) + line(9, "service-ack"))
    assert judged(run) == (
        Verdict.INVALID,
        "no member led for 7000 ms while members 1, 2 were healthy (allowed: 5000 ms)",
    )


@pytest.mark.parametrize("component", ["all", "consensus"])
def test_a_leader_without_its_module_leads_no_more(component: str, tmp_path: Path) -> None:
    run = failover(tmp_path, 30, election(29))
    assert judged(hit(run, "kill", 2, 28, component=component))[0] is Verdict.INVALID


def test_a_leader_that_is_hit_in_part_still_leads(tmp_path: Path) -> None:
    run = failover(tmp_path / "cut", 30, election(29))
    assert judged(hit(run, "blackhole", 2, 28))[0] is Verdict.VALID
    run = failover(tmp_path / "unproved", 30, election(29))
    assert judged(hit(run, "kill", 2, 28, is_seen=False))[0] is Verdict.VALID
    run = failover(tmp_path / "armed", 30, election(29))
    assert judged(hit(run, "die-in-change", 2, 28))[0] is Verdict.VALID
    run = failover(tmp_path / "component", 30, election(29))
    assert judged(hit(run, "kill", 2, 28, component="service"))[0] is Verdict.VALID


def test_members_that_are_started_late_are_not_well_before(tmp_path: Path) -> None:
    """What started them need not have waited until they ran."""
    run = failover(tmp_path, 30)
    for member_id in range(3):
        started = line(20, "process-start") + election(21) + elected(22, 1)
        run.member(member_id).trace.write_text(line(0, "process-start") + elected(1, 0) + started)
        hit(run, "kill", 2, 3, member_id=member_id)
    assert judged(run)[0] is Verdict.VALID


def test_what_stalls_explain_is_unknown(tmp_path: Path) -> None:
    stall = line(8, "loop-stall", stall_ns=2_000_000_000)
    assert judged(failover(tmp_path / "then", 8, election(2), others=(stall,)))[0] is Verdict.UNKNOWN
    before = line(2, "loop-stall", stall_ns=2_000_000_000)
    assert judged(failover(tmp_path / "before", 8, election(2), others=(before,)))[0] is Verdict.INVALID


def test_only_a_quorum_that_is_well_must_find_one(tmp_path: Path) -> None:
    run = failover(tmp_path / "fault", 20, ended(2))
    assert judged(hit(run, "pause", 3, 19, member_id=2))[0] is Verdict.VALID
    run = failover(tmp_path / "start", 20, ended(2))
    run.member(2).trace.write_text(line(15, "process-start") + elected(20, 1) + line(20.1, "service-ack"))
    assert judged(run)[0] is Verdict.VALID


def test_a_member_is_well_again_a_failover_after_its_fault(tmp_path: Path) -> None:
    """From second 15 on two members are well, and have five seconds to find a leader."""
    for second, verdict in ((19.9, Verdict.VALID), (20.1, Verdict.INVALID)):
        run = failover(tmp_path / str(second), second, ended(2))
        assert judged(hit(run, "pause", 3, 10, member_id=2))[0] is verdict
