"""Which ends of processes without an order are explained, and by what."""

import json
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.evidence.trace_facts import facts_of_members
from upheaval.checkers.judge import judge
from upheaval.checkers.known_bugs import recognised
from upheaval.checkers.liveness.unexplained import UNEXPLAINED, check_ends
from upheaval.checkers.promises import Promise
from upheaval.checkers.signature import FOLLOWER, MARK_IN_ACTIVATION, Rule, Signature
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import OWN_SYSTEM, Json, Manifest, RunFolder, seal
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.files import layout
from upheaval_node.files.mark_file import ACTIVATION_IN_PROGRESS

S = 10**9
AERON = "aeron:1.51.0"
EPOCH_MS = 1_700_000_000_000
MET, RUNS = Proof(True, "member 0 met its limit"), Proof(True, "member 0 runs")
ENDED_ONE = "the kernel ended 1 process of member 0 for want of memory"
ENDED_TWO = "the kernel ended 2 processes of member 0 for want of memory"


def line(second: float, event: str = "process-start", *, moved_ms: int = 0, component: str = "all") -> dict[str, Json]:
    epoch_ms = EPOCH_MS + int(second * 1000) + moved_ms
    return {"ts": int(second * S), "epoch_ms": epoch_ms, "event": event, "component": component}


def judged(
    path: Path,
    *traces: list[dict[str, Json]],
    fault: FaultRecord | None = None,
    forced: int | None = None,
    runtime: str = "process",
    is_sealed: bool = False,
    system: str = OWN_SYSTEM,
) -> Verdict:
    return found(path, *traces, fault=fault, forced=forced, runtime=runtime, is_sealed=is_sealed, system=system).verdict


def owned_at(timestamp: int) -> bytes:
    """A mark file, as far as its owner."""
    return struct.pack("<16xq8xq", timestamp, 7)


def found(
    path: Path,
    *traces: list[dict[str, Json]],
    fault: FaultRecord | None = None,
    forced: int | None = None,
    runtime: str = "process",
    is_sealed: bool = False,
    system: str = OWN_SYSTEM,
    marks: Mapping[str, int] | None = None,
) -> Finding:
    """`marks` are mark files, by their path in the run folder, with the time of their owner's last sign of life."""
    run = RunFolder(path)
    run.create(Manifest("run-1", runtime, len(traces), "test", 0, system=system))
    for member_id, lines in enumerate(traces):
        run.member(member_id).path.mkdir(exist_ok=True)
        run.member(member_id).trace.write_text("".join(json.dumps(each) + "\n" for each in lines))
    for name, timestamp in (marks or {}).items():
        file = run.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(owned_at(timestamp))
    if fault is not None:
        run.add_fault(fault)
    if forced is not None:
        run.add_forced_end([forced, -1], 3 * S, 3 * S, "did not end within 15 s")
    if is_sealed:
        seal(run)
    facts = facts_of_members(run, len(traces))
    return check_ends(run, run.read_manifest(), facts)


@pytest.mark.parametrize(
    ("other_ends", "other_starts", "verdict"),
    [(2.5, 6, Verdict.UNKNOWN), (7, 6, Verdict.INVALID), (2.5, None, Verdict.INVALID)],
    ids=["all down", "another one ran on", "another one stayed down"],
)
def test_an_untold_end_of_a_whole_cluster_may_be_the_harness(
    other_ends: float, other_starts: float | None, verdict: Verdict, tmp_path: Path
) -> None:
    other = [line(1), line(2.5, "role"), line(other_ends, "role")]
    if other_starts is not None and other_starts > other_ends:
        other += [line(other_starts), line(8, "role")]
    assert judged(tmp_path, [line(1), line(2, "role"), line(5), line(8, "role")], other) is verdict


@pytest.mark.parametrize(("moved_ms", "verdict"), [(0, Verdict.INVALID), (3_600_000, Verdict.VALID)])
def test_a_reboot_of_the_machine_explains_an_end_without_a_line(
    moved_ms: int, verdict: Verdict, tmp_path: Path
) -> None:
    """By its wall clock: the monotonic one may have come further than before."""
    again = [line(5, moved_ms=moved_ms), line(8, "role", moved_ms=moved_ms)]
    assert judged(tmp_path, [line(1), line(2, "role"), *again], [line(1), line(9, "role")]) is verdict


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        ([line(1), line(9, "role", moved_ms=62_000)], Verdict.INVALID),
        ([line(1), line(90, "role")], Verdict.INVALID),
        ([line(1), line(4, "role"), line(6, moved_ms=62_000), line(9, "role", moved_ms=62_000)], Verdict.VALID),
        ([line(1), line(6, "role"), line(7, moved_ms=62_000), line(9, "role", moved_ms=62_000)], Verdict.VALID),
        ([line(1, moved_ms=-99_000), line(90, "role", moved_ms=-99_000)], Verdict.VALID),
    ],
    ids=["the clock was set", "one clock is ahead", "restarted", "ran until then", "another machine"],
)
def test_a_process_that_runs_through_a_gap_shows_that_the_machine_did_not_reboot(
    other: list[dict[str, Json]], verdict: Verdict, tmp_path: Path
) -> None:
    again = [line(5, moved_ms=62_000), line(8, "role", moved_ms=62_000)]
    assert judged(tmp_path, [line(1), line(2, "role"), *again], other) is verdict


@pytest.mark.parametrize(
    ("hit", "ended", "verdict"),
    [
        (None, "consensus", Verdict.VALID),
        ("consensus", "consensus", Verdict.VALID),
        ("service", "service-0", Verdict.VALID),
        ("service", "consensus", Verdict.INVALID),
        ("consensus", "service-0", Verdict.INVALID),
    ],
)
def test_a_kill_of_one_component_explains_no_end_of_another(
    hit: str | None, ended: str, verdict: Verdict, tmp_path: Path
) -> None:
    killed = [line(second, event, component=ended) for second, event in ((1, "process-start"), (2, "role"))]
    again = [line(second, event, component=ended) for second, event in ((5, "process-start"), (8, "role"))]
    fault = FaultRecord("kill", "member-0", 3 * S, 3 * S, members=(0,), component=hit)
    assert judged(tmp_path, [*killed, *again], [line(1), line(9, "role")], fault=fault) is verdict


@pytest.mark.parametrize(
    ("second", "again_at", "component", "verdict"),
    [
        (7, 25, "archive", Verdict.VALID),
        (20, 25, "archive", Verdict.INVALID),
        (5, 25, "archive", Verdict.INVALID),
        (9, 8, "archive", Verdict.INVALID),
        (7, 25, "service-1", Verdict.INVALID),
    ],
    ids=["after", "late", "before", "beside the next module", "another service"],
)
def test_an_archive_ends_after_the_module_that_lost_its_service(
    second: float, again_at: float, component: str, verdict: Verdict, tmp_path: Path
) -> None:
    kill = FaultRecord("kill", "member-0/service", 3 * S, 3 * S, members=(0,), component="service")
    module = [line(1, component="consensus"), {**line(6, "process-end", component="consensus"), "status": 6}]
    ended = [line(1, component=component), {**line(second, "process-end", component=component), "status": 0}]
    again = [line(again_at, component="consensus"), line(26, component=component)]
    mine = sorted([*module, *ended, *again], key=lambda each: float(str(each["ts"])))
    other = [line(1), line(30, "role")]
    assert judged(tmp_path, mine, other, fault=replace(kill, heal_end_ns=25 * S)) is verdict


def test_an_end_by_force_explains_the_ends_of_whom_it_names(tmp_path: Path) -> None:
    killed = [line(1), line(2, "role"), line(5), line(8, "role")]
    assert judged(tmp_path / "named", killed, [line(1), line(9, "role")], forced=0) is Verdict.VALID
    assert judged(tmp_path / "other", killed, [line(1), line(9, "role")], forced=1) is Verdict.INVALID


ENDED = [line(1), {**line(9, "process-end"), "status": 0}]
KILL = FaultRecord("kill", "member-0", 3 * S, 3 * S, members=(0,))


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        ({"is_sealed": True}, Verdict.INVALID),
        ({}, Verdict.VALID),
        ({"is_sealed": True, "runtime": "simulated"}, Verdict.VALID),
        ({"is_sealed": True, "fault": KILL}, Verdict.VALID),
        ({"is_sealed": True, "fault": replace(KILL, members=(1,))}, Verdict.INVALID),
        ({"is_sealed": True, "fault": replace(KILL, inject_begin_ns=S, inject_end_ns=S)}, Verdict.INVALID),
        ({"is_sealed": True, "fault": replace(KILL, what="disk-full")}, Verdict.VALID),
        ({"is_sealed": True, "forced": 0}, Verdict.VALID),
    ],
    ids=["", "goes on", "simulated", "killed", "another one killed", "killed before", "disk full", "ended by force"],
)
def test_a_crash_as_the_last_thing_of_a_run_that_was_ended_is_found(
    given: dict[str, Any], verdict: Verdict, tmp_path: Path
) -> None:
    assert judged(tmp_path, [line(1), line(2, "role")], ENDED, **given) is verdict


@pytest.mark.parametrize(
    ("told", "ended", "given", "verdict"),
    [
        (None, 6, {}, Verdict.INVALID),
        ("election_state", 6, {}, Verdict.VALID),
        (None, 16, {}, Verdict.VALID),
        (None, 6, {"heal_begin_ns": None}, Verdict.VALID),
        (None, 6, {"what": "wrong-bytes"}, Verdict.VALID),
        (None, 6, {"what": "memory-limit", "inject_proof": Proof(True, ENDED_ONE)}, Verdict.INVALID),
    ],
    ids=["refused", "was in an election", "timed out", "not healed", "its files were damaged", "of its memory"],
)
def test_a_kill_explains_no_start_that_is_refused_after_it(
    told: str | None, ended: int, given: dict[str, Any], verdict: Verdict, tmp_path: Path
) -> None:
    kill = replace(KILL, **{"heal_begin_ns": int(4.9 * S), "heal_end_ns": 8 * S, **given})
    again = [line(5), *([line(5.5, told)] if told else []), {**line(ended, "process-end"), "status": 7}]
    assert judged(tmp_path, [line(1), line(2, "role"), *again], ENDED, fault=kill) is verdict


def erring(second: float, kind: str = "media-peer-1") -> list[dict[str, Json]]:
    told = {**line(second, "error"), "kind": kind}
    return [line(1), {**line(2, "leadership_term"), "leadership_term_id": 0}, told, line(200, "role")]


@pytest.mark.parametrize(
    ("second", "verdict"), [(2.5, Verdict.UNKNOWN), (4, Verdict.VALID), (39, Verdict.VALID), (41, Verdict.UNKNOWN)]
)
def test_a_fault_explains_errors_while_it_lasts_and_for_a_while(
    second: float, verdict: Verdict, tmp_path: Path
) -> None:
    cut = FaultRecord("blackhole", "links", 3 * S, 3 * S, heal_begin_ns=9 * S, heal_end_ns=9 * S, members=(1,))
    assert judged(tmp_path / "healed", erring(second), fault=cut) is verdict
    lasting = replace(cut, heal_begin_ns=None, heal_end_ns=None)
    expected = Verdict.UNKNOWN if second < 3 else Verdict.VALID
    assert judged(tmp_path / "lasting", erring(second), fault=lasting) is expected


@pytest.mark.parametrize(("second", "verdict"), [(45, Verdict.VALID), (90, Verdict.UNKNOWN)])
def test_stalls_and_ends_of_processes_explain_errors_for_a_while(
    second: float, verdict: Verdict, tmp_path: Path
) -> None:
    stalled = [line(1), {**line(20, "loop-stall"), "stall_ns": S}]
    assert judged(tmp_path / "stall", erring(second), stalled) is verdict
    restarted = [line(1), {**line(18, "process-end"), "status": 0}, line(20)]
    stop = FaultRecord("stop", "member-1", 17 * S, 18 * S, 20 * S, 20 * S, members=(1,))
    assert judged(tmp_path / "restart", erring(second), restarted, fault=stop) is verdict
    ended = [line(1), {**line(20, "process-end"), "status": 0}]
    assert judged(tmp_path / "ended", erring(second), ended) is Verdict.VALID
    assert judged(tmp_path / "alone", erring(second), [line(1)]) is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("kind", "in_peace", "in_trouble"),
    [
        ("WARN ClusterEvent", Verdict.VALID, Verdict.VALID),
        ("ERROR ArchiveException", Verdict.UNKNOWN, Verdict.VALID),
        ("unforeseen NullPointerException", Verdict.INVALID, Verdict.INVALID),
    ],
)
def test_an_exception_that_is_none_of_aerons_own_is_explained_by_nothing(
    kind: str, in_peace: Verdict, in_trouble: Verdict, tmp_path: Path
) -> None:
    cut = FaultRecord("blackhole", "links", 3 * S, 3 * S, heal_begin_ns=9 * S, heal_end_ns=9 * S, members=(1,))
    assert judged(tmp_path / "peace", erring(4, kind)) is in_peace
    assert judged(tmp_path / "trouble", erring(4, kind), fault=cut) is in_trouble


def test_an_exception_of_a_member_has_the_role_and_state_in_which_it_was_reported(tmp_path: Path) -> None:
    before = [{**line(2, "role"), "new": "FOLLOWER"}, {**line(3, "election_state"), "state": "FOLLOWER_CATCHUP"}]
    error = {**line(4, "error"), "kind": "unforeseen NullPointerException", "where": "LogAdapter.poll"}
    after = {**line(5, "election_state"), "state": "CANVASS"}
    run = RunFolder(tmp_path)
    run.create(Manifest("run-1", "process", 1, "test", 0))
    run.member(0).path.mkdir()
    lines = [line(1), *before, error, after]
    run.member(0).trace.write_text("".join(json.dumps(each) + "\n" for each in lines))
    finding = check_ends(run, run.read_manifest(), facts_of_members(run, 1))
    assert finding.verdict is Verdict.INVALID
    expected = Signature(
        Rule.UNFORESEEN, FOLLOWER, "FOLLOWER_CATCHUP", entry="NullPointerException", where="LogAdapter.poll"
    )
    assert finding.signature == expected
    assert finding.detail.endswith("NullPointerException in LogAdapter.poll")


BY_ERROR: list[dict[str, Json]] = [
    line(1),
    {**line(2, "role"), "old": "FOLLOWER", "new": "FOLLOWER"},
    {**line(3, "election_state"), "state": "FOLLOWER_BALLOT"},
    {**line(4, "error"), "kind": "WARN ClusterEvent", "where": "Election.doWork"},
    {**line(4, "error"), "kind": "ERROR ClusterException", "where": "ConsensusModuleAgent.onNewLeadershipTerm"},
    {**line(4, "service-terminate"), "service_id": 0, "log_position": 0},
    {**line(5, "module_state"), "old": "ACTIVE", "new": "CLOSED"},
    {**line(6, "process-end"), "status": 7},
]
"""A member of Aeron whose consensus module is ended by an error, and ends its service."""


def test_an_end_by_an_error_is_no_ordered_one_though_the_service_gets_an_order(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.create(Manifest("run-1", "process", 1, "test", 0, system=AERON))
    run.member(0).path.mkdir()
    run.member(0).trace.write_text("".join(json.dumps(each) + "\n" for each in BY_ERROR))
    finding = check_ends(run, run.read_manifest(), facts_of_members(run, 1))
    assert finding.verdict is Verdict.INVALID
    assert finding.signature == Signature(
        Rule.UNEXPECTED_END,
        FOLLOWER,
        "FOLLOWER_BALLOT",
        entry="ClusterException",
        where="ConsensusModuleAgent.onNewLeadershipTerm",
    )


@pytest.mark.parametrize(
    ("how", "verdict"),
    [
        ({"expected": False}, Verdict.INVALID),
        ({"expected": False, "by_service": False}, Verdict.INVALID),
        ({"expected": False, "by_service": True}, Verdict.VALID),
        ({"expected": True, "by_service": False}, Verdict.VALID),
    ],
)
def test_a_failure_of_our_node_is_no_ordered_end_though_its_service_ends_first(
    how: dict[str, Json], verdict: Verdict, tmp_path: Path
) -> None:
    """A commit position that went back made two members end that no fault had hit. A service may end its member."""
    trace = [
        *(line(1), line(2, "role"), {**line(4, "service-terminate"), "service_id": 0, "log_position": 1568}),
        {**line(5, "terminated"), "reason": "log must be contiguous", **how},
        {**line(6, "process-end"), "status": 7},
    ]
    assert judged(tmp_path, trace) is verdict


@pytest.mark.parametrize(
    ("stall_ns", "method", "verdict"),
    [
        (6 * S, "slowTickWork", Verdict.UNKNOWN),
        (6 * S, "onNewLeadershipTerm", Verdict.INVALID),
        (4 * S, "slowTickWork", Verdict.INVALID),
    ],
)
def test_components_of_aeron_that_a_starved_machine_stalled_may_have_lost_each_other(
    stall_ns: int, method: str, verdict: Verdict, tmp_path: Path
) -> None:
    """What raised an error when it took a message did not miss a sign of life."""
    by_error = [{**each, "where": f"ConsensusModuleAgent.{method}"} if "where" in each else each for each in BY_ERROR]
    stalled = [*by_error[:-1], {**line(20, "loop-stall"), "stall_ns": stall_ns}, {**by_error[-1], "ts": 21 * S}]
    assert judged(tmp_path, stalled, system=AERON) is verdict


@pytest.mark.parametrize(
    ("system", "component", "new", "verdict"),
    [
        (AERON, "all", "CLOSED", Verdict.INVALID),
        (AERON, "all", "TERMINATING", Verdict.VALID),
        (AERON, "consensus", "CLOSED", Verdict.INVALID),
        (AERON, "consensus", "TERMINATING", Verdict.VALID),
        (AERON, "service-0", "CLOSED", Verdict.VALID),
        (OWN_SYSTEM, "all", "CLOSED", Verdict.VALID),
    ],
)
def test_the_state_of_aerons_module_distinguishes_an_order_from_an_error(
    system: str, component: str, new: str, verdict: Verdict, tmp_path: Path
) -> None:
    """A service ends with its module, which is judged itself. A service of our node may end its member."""
    ended = [{**each, "component": component} for each in BY_ERROR]
    ended[-2]["new"] = new
    assert judged(tmp_path, ended, system=system) is verdict


@pytest.mark.parametrize(
    ("what", "is_started", "verdict"),
    [
        ("damage", False, Verdict.VALID),
        ("damage", True, Verdict.INVALID),
        ("purge", False, Verdict.INVALID),
        ("wipe", False, Verdict.INVALID),
        ("kill", False, Verdict.INVALID),
    ],
)
def test_damaged_files_explain_a_refused_start_however_late(
    what: str, is_started: bool, verdict: Verdict, tmp_path: Path
) -> None:
    fault = FaultRecord(what, "member-0", 3 * S, 3 * S, 4 * S, 4 * S, members=(0,), statement=f"{what} member-0")
    started = [{**line(6, "election_state"), "old": "INIT", "new": "CANVASS"}] if is_started else []
    refused = {**line(60, "process-end"), "status": 7, "reason": "a straddling fragment"}
    first = [line(1), line(2, "role"), line(5), *started, refused]
    assert judged(tmp_path, first, [line(1), line(70, "role")], fault=fault) is verdict


@pytest.mark.parametrize(
    ("what", "injected", "verdict"),
    [
        ("blackhole", 3, Verdict.UNKNOWN),
        ("pause", 3, Verdict.UNKNOWN),
        ("cpu-limit", 3, Verdict.UNKNOWN),
        ("memory-limit", 3, Verdict.UNKNOWN),
        ("kill", 3, Verdict.VALID),
        ("wrong-bytes", 3, Verdict.VALID),
        ("disk-full", 3, Verdict.VALID),
        ("kill", 9, Verdict.UNKNOWN),
    ],
)
def test_only_a_fault_that_can_damage_files_explains_damage(
    what: str, injected: int, verdict: Verdict, tmp_path: Path
) -> None:
    fault = FaultRecord(what, "member-0", injected * S, injected * S, 10 * S, 10 * S, members=(0,))
    assert judged(tmp_path, erring(8, "catalog"), [line(1)], fault=fault) is verdict


@pytest.mark.parametrize(
    ("status", "second", "verdict"),
    [
        (9, 2.9, Verdict.INVALID),
        (9, 5, Verdict.VALID),
        (9, 19.9, Verdict.VALID),
        (9, 20.1, Verdict.INVALID),
        (1, 5, Verdict.INVALID),
    ],
)
@pytest.mark.parametrize("what", ["cpu-limit", "memory-limit"])
def test_a_limit_explains_the_end_of_a_starved_member_until_a_while_after_it(
    what: str, status: int, second: float, verdict: Verdict, tmp_path: Path
) -> None:
    fault = FaultRecord(what, "member-0", 3 * S, 3 * S, 10 * S, 10 * S, members=(0,))
    ended = {**line(second, "process-end"), "status": status}
    assert judged(tmp_path, [line(1), line(2, "role"), ended, line(40)], [line(1)], fault=fault) is verdict


SHORT = FaultRecord("memory-limit", "member-0", 3 * S, 3 * S, 10 * S, 11 * S, MET, RUNS, members=(0,))


def silent(*begins: float) -> list[dict[str, Json]]:
    """A member whose processes begin then, and of which all but the last record no end."""
    return [each for begin in begins for each in (line(begin), line(begin + 1, "role"))]


@pytest.mark.parametrize(
    ("given", "begins", "verdict"),
    [
        ({"heal_proof": Proof(True, f"member 0 runs; {ENDED_ONE}")}, (1, 10.5), Verdict.VALID),
        ({"inject_proof": Proof(True, ENDED_ONE), "heal_proof": None}, (1, 10.5), Verdict.VALID),
        ({}, (1, 10.5), Verdict.INVALID),
        ({"heal_proof": Proof(True, f"member 0 runs; {ENDED_ONE}")}, (1, 5, 10.5), Verdict.INVALID),
        ({"heal_proof": Proof(True, f"member 0 runs; {ENDED_TWO}")}, (1, 5, 10.5), Verdict.VALID),
        ({"heal_proof": Proof(True, ENDED_ONE.replace("member 0", "member 1"))}, (1, 10.5), Verdict.INVALID),
        ({"heal_proof": Proof(True, f"member 0 runs; {ENDED_ONE}")}, (1, 2.9, 10.5), Verdict.INVALID),
        ({"heal_proof": Proof(True, f"member 0 runs; {ENDED_ONE}")}, (1, 10.5, 20), Verdict.INVALID),
        ({"what": "cpu-limit", "heal_proof": Proof(True, ENDED_ONE)}, (1, 10.5), Verdict.INVALID),
        ({"heal_proof": Proof(False, f"no end; {ENDED_ONE}")}, (1, 10.5), Verdict.UNKNOWN),
        ({"heal_proof": None, "heal_begin_ns": None, "heal_end_ns": None}, (1, 10.5), Verdict.UNKNOWN),
        ({"heal_proof": None, "heal_begin_ns": None, "heal_end_ns": None}, (1, 2.9), Verdict.INVALID),
    ],
    ids=[
        "counted",
        "counted before the heal",
        "not counted",
        "one of two",
        "two",
        "of another member",
        "before the fault",
        "after the fault",
        "another fault",
        "the heal was not proved",
        "not healed",
        "before a fault that is not healed",
    ],
)
def test_a_limit_of_memory_explains_as_many_silent_ends_as_the_kernel_counted(
    given: dict[str, Any], begins: tuple[float, ...], verdict: Verdict, tmp_path: Path
) -> None:
    fault = replace(SHORT, **given)
    assert judged(tmp_path, silent(*begins), silent(1), fault=fault) is verdict


def test_what_another_fault_ended_is_none_of_those_that_the_kernel_counted(tmp_path: Path) -> None:
    fault = replace(SHORT, heal_proof=Proof(True, ENDED_ONE))
    assert judged(tmp_path, silent(1, 5, 10.5), silent(1), fault=fault, forced=0) is Verdict.VALID


@pytest.mark.parametrize(("evidence", "verdict"), [(ENDED_ONE, Verdict.VALID), ("runs", Verdict.UNKNOWN)])
def test_a_process_that_the_kernel_ended_may_leave_torn_files(evidence: str, verdict: Verdict, tmp_path: Path) -> None:
    fault = replace(SHORT, heal_proof=Proof(True, evidence))
    assert judged(tmp_path, erring(12, "catalog"), [line(1)], fault=fault) is verdict


@pytest.mark.parametrize(("status", "verdict"), [(0, Verdict.UNKNOWN), (8, Verdict.VALID)])
def test_an_end_in_order_explains_no_damage(status: int, verdict: Verdict, tmp_path: Path) -> None:
    """The whole cluster ends and starts again. An end with status 8 was cut short."""
    end = {**line(3, "process-end"), "status": status}
    again = [line(5), {**line(6, "error"), "kind": "recovery"}]
    assert judged(tmp_path, [line(1), line(2, "role"), end, *again]) is verdict


def test_files_copied_to_another_host_explain_damage(tmp_path: Path) -> None:
    (tmp_path / "member-0" / "replaced-1").mkdir(parents=True)
    assert judged(tmp_path, erring(8, "recovery"), [line(1)]) is Verdict.VALID


MARKED = "start: java.lang.IllegalStateException: active mark file detected: archive-mark.dat"
IN_ACTIVATION = {f"member-0/{layout.ARCHIVE_MARK}": ACTIVATION_IN_PROGRESS}


OF_SERVICE = "start: java.lang.IllegalStateException: active mark file detected: cluster-mark-service-0.dat"


def refused(reason: str = MARKED, later: str = "") -> list[dict[str, Json]]:
    """A member that is killed, and whose next start fails; its next one gets as far as `later`."""
    ended = {**line(6, "process-end"), "status": 7, "reason": reason}
    again = [line(20), line(21, later)] if later else []
    return [line(1), line(2, "role"), line(5), ended, *again]


def refused_by_mark_of_service(*, ends: tuple[float, ...] = (6, 28)) -> list[dict[str, Json]]:
    """The same of a member whose module has begun an election, once for each end."""
    trace = [line(1), line(2, "role")]
    for second in ends:
        ended = {**line(second, "process-end"), "status": 7, "reason": OF_SERVICE}
        trace += [line(second - 1), line(second - 0.5, "election_state"), ended]
    return trace


KILLED = replace(KILL, heal_begin_ns=int(4.9 * S), heal_end_ns=8 * S)


@pytest.mark.parametrize(
    ("reason", "later", "marks", "entry"),
    [
        (MARKED, "", IN_ACTIVATION, MARK_IN_ACTIVATION),
        (MARKED, "role", IN_ACTIVATION, MARK_IN_ACTIVATION),
        (MARKED, "election_state", IN_ACTIVATION, ""),
        (MARKED, "", {}, ""),
        (MARKED, "", dict.fromkeys(IN_ACTIVATION, EPOCH_MS), ""),
        ("start: io.aeron.cluster.client.ClusterException: ERROR - no snapshot", "", IN_ACTIVATION, ""),
    ],
    ids=["refused", "again", "a later start was not refused", "no mark", "a live owner", "another reason"],
)
def test_a_mark_in_activation_is_why_a_start_was_refused_only_if_it_names_the_mark(
    reason: str, later: str, marks: dict[str, int], entry: str, tmp_path: Path
) -> None:
    finding = found(tmp_path, refused(reason, later), [line(1)], fault=KILLED, system=AERON, marks=marks)
    assert finding.signature == Signature(Rule.REFUSED_START, entry=entry)


@pytest.mark.parametrize("ends", [(6,), (6, 28)], ids=["refused", "again"])
def test_a_mark_of_a_service_may_refuse_a_member_in_its_first_election(ends: tuple[float, ...], tmp_path: Path) -> None:
    """Scenario timers-over-restarts on Aeron 1.51.0, beside a busy machine: the kill before the start explained it."""
    marks = {f"member-0/{layout.CLUSTER_DIRECTORY}/cluster-mark-service-0.dat": ACTIVATION_IN_PROGRESS}
    trace = refused_by_mark_of_service(ends=ends)
    finding = found(tmp_path, trace, [line(1)], fault=KILLED, system=AERON, marks=marks)
    assert finding.signature == Signature(Rule.REFUSED_START, entry=MARK_IN_ACTIVATION)
    assert recognised([finding], [AERON])[0].known_issue == 2148


def test_a_refused_start_of_a_known_bug_hides_no_crash_of_another_member(tmp_path: Path) -> None:
    crash = {"kind": "ERROR ClusterException", "where": "ConsensusModuleAgent.onUnheardOf"}
    crashed = [{**each, **crash} if each.get("kind") == crash["kind"] else each for each in BY_ERROR]
    alone = found(tmp_path / "alone", refused(), fault=KILLED, system=AERON, marks=IN_ACTIVATION)
    assert recognised([alone], [AERON])[0].known_issue == 2148
    both = found(tmp_path / "both", refused(), crashed, fault=KILLED, system=AERON, marks=IN_ACTIVATION)
    (marked,) = recognised([both], [AERON])
    assert (marked.known, marked.members) == ("", (1,))
    assert marked.signature is not None
    assert marked.signature.where == crash["where"]
    assert [(one.members, one.known_issue) for one in marked.besides] == [((0,), 2148)]


def test_a_version_that_a_process_did_not_run_explains_no_end_of_it(tmp_path: Path) -> None:
    for version, issue in (("1.47.4", None), ("1.51.0", 2148)):
        trace = [{**each, "version": version} if each["event"] == "process-start" else each for each in refused()]
        path = tmp_path / version
        found(path, trace, fault=KILLED, system=AERON, marks=IN_ACTIVATION)
        run = RunFolder(path)
        run.write_manifest(replace(run.read_manifest(), systems_before=("aeron:1.47.4",)))
        report = judge(Evidence(run), (UNEXPLAINED,))
        assert report.finding(Promise.NO_UNEXPLAINED_END).known_issue == issue
