"""What members wrote before they lost files is not expected of them. What they wrote after it is."""

import json
import struct
from pathlib import Path

import pytest

from upheaval.checkers.evidence.absence import check_absence
from upheaval.checkers.evidence.losses import losses_of
from upheaval.checkers.evidence.trace_facts import facts_of_members
from upheaval.checkers.promises import Promise
from upheaval.checkers.protocol.protocol import check_protocol
from upheaval.checkers.states.taken_snapshots import Holder, OrderedSnapshot, judge_taken
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import Json, Manifest, RunFolder
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.files import layout
from upheaval_node.protocol import node_state_messages as messages
from upheaval_node.types import S

Line = dict[str, Json]
POSITION = 4096
MARKS = ("cluster/cluster-mark.dat", "archive/archive-mark.dat", "cluster/cluster-mark-service-0.dat")
LOSSES = ["wipe", "power-cut"]


def line(second: int, event: str, **fields: Json) -> Line:
    return {"ts": second * S, "component": "all", "event": event, **fields}


def run_of(path: Path, members: int, *lines: Line, lost_at: int | None = None, what: str = "wipe") -> RunFolder:
    """A run at sync level 0 whose member 0 traced the lines, and lost files in that second."""
    run = RunFolder(path)
    run.create(Manifest("run-1", "process", members, "test", 0))
    run.scenario_file.write_text("")
    for member_id in range(members):
        folder = run.member(member_id)
        folder.cluster.mkdir(parents=True)
        folder.archive.mkdir()
        start = line(0, "process-start")
        traced = lines if member_id == 0 else (line(1, "role", role="FOLLOWER"),)
        folder.trace.write_text("".join(json.dumps(each) + "\n" for each in (start, *traced)))
        for name in MARKS:
            (folder.path / name).touch()
    if lost_at is not None:
        proof = Proof(True, "member 0 is down")
        at = lost_at * S
        run.add_fault(FaultRecord(what, "member-0", at, at, at + 1, at + 1, proof, proof, members=(0,)))
    return run


def complete(run: RunFolder) -> Finding:
    manifest = run.read_manifest()
    return check_absence(run, manifest, facts_of_members(run, manifest.members))


def snapshot_at(second: int) -> tuple[Line, ...]:
    return (
        line(second, "module_state", old="ACTIVE", new="SNAPSHOT"),
        line(second, "service-ack", log_position=POSITION),
        line(second, "module_state", old="SNAPSHOT", new="ACTIVE"),
    )


@pytest.mark.parametrize("what", LOSSES)
@pytest.mark.parametrize(("lost_at", "verdict"), [(None, Verdict.UNKNOWN), (20, Verdict.UNKNOWN), (40, Verdict.VALID)])
def test_only_a_snapshot_before_a_loss_may_be_absent(
    lost_at: int | None, verdict: Verdict, what: str, tmp_path: Path
) -> None:
    finding = complete(run_of(tmp_path, 1, *snapshot_at(30), lost_at=lost_at, what=what))
    assert finding.verdict is verdict, finding
    assert ("has no snapshot at position 4096" in finding.detail) is (verdict is Verdict.UNKNOWN)


def test_a_purge_is_no_loss(tmp_path: Path) -> None:
    run = run_of(tmp_path, 1, *snapshot_at(30), lost_at=40, what="purge")
    assert "has no snapshot at position 4096" in complete(run).detail
    assert not losses_of(run, run.read_manifest()).members


@pytest.mark.parametrize(("lost_at", "verdict"), [(None, Verdict.UNKNOWN), (20, Verdict.UNKNOWN), (40, Verdict.VALID)])
def test_only_a_snapshot_before_a_loss_may_be_invalid(lost_at: int | None, verdict: Verdict, tmp_path: Path) -> None:
    run = run_of(tmp_path, 1, *snapshot_at(30), lost_at=lost_at)
    is_invalid, of_snapshot, module = -(1 << 31), 1, -1
    record = struct.pack("<qqqqqii16x", 3, 0, 0, POSITION, 1, module, is_invalid + of_snapshot)
    run.member(0).recording_log.write_bytes(record)
    finding = complete(run)
    assert finding.verdict is verdict, finding
    assert ("has an invalid snapshot at position 4096" in finding.detail) is (verdict is Verdict.UNKNOWN)


@pytest.mark.parametrize(("lost_at", "verdict"), [(None, Verdict.UNKNOWN), (20, Verdict.UNKNOWN), (40, Verdict.VALID)])
def test_only_marks_of_processes_before_a_loss_may_be_absent(
    lost_at: int | None, verdict: Verdict, tmp_path: Path
) -> None:
    run = run_of(tmp_path, 1, line(30, "election_state", state="CANVASS"), lost_at=lost_at)
    (run.member(0).path / MARKS[1]).unlink()
    finding = complete(run)
    assert finding.verdict is verdict, finding
    assert ("archive-mark.dat is missing" in finding.detail) is (verdict is Verdict.UNKNOWN)


def vote_at(second: int) -> tuple[Line, ...]:
    asked: Line = {"candidate_term_id": 9, "candidate_member_id": 1, "log_leadership_term_id": 0, "log_position": 0}
    return (
        line(second, "receive", message="RequestVote", **asked),
        line(second, "send", message="Vote", vote=True, follower_member_id=0, **asked),
    )


@pytest.mark.parametrize("what", LOSSES)
@pytest.mark.parametrize(("lost_at", "verdict"), [(None, Verdict.INVALID), (5, Verdict.INVALID), (70, Verdict.VALID)])
def test_only_a_vote_before_a_loss_may_be_forgotten(
    lost_at: int | None, verdict: Verdict, what: str, tmp_path: Path
) -> None:
    run = run_of(tmp_path, 3, *vote_at(60), lost_at=lost_at, what=what)
    asked, _ = vote_at(60)
    with run.member(1).trace.open("a") as trace:
        trace.write(json.dumps({**asked, "event": "send"}) + "\n")
    header = messages.SCHEMA.encode_body(messages.NodeStateHeader(version=1, padding=0))
    for member_id, term in enumerate((3, 9)):
        records = (messages.CandidateTerm(term, 1, 0), messages.NodeStateFooter())
        content = header + b"".join(map(messages.SCHEMA.encode, records))
        (run.member(member_id).path / layout.NODE_STATE).write_bytes(content)
    finding = next(each for each in check_protocol(run, run.read_manifest()) if each.promise is Promise.VOTES_KEPT)
    assert isinstance(finding, Finding)
    assert finding.verdict is verdict, finding


@pytest.mark.parametrize(("lost_ns", "verdict"), [(99, Verdict.INVALID), (100, Verdict.VALID)])
def test_only_a_snapshot_ordered_before_a_loss_may_be_absent(lost_ns: int, verdict: Verdict, tmp_path: Path) -> None:
    lives = facts_of_members(run_of(tmp_path, 1, line(1, "role")), 1)[0].lives
    order = OrderedSnapshot(1, "snapshot", 100, 200, {1: POSITION})
    finding = judge_taken([order], [Holder("member-0", 0, (), lives, lost_ns=lost_ns)], 1)
    assert isinstance(finding, Finding)
    assert finding.verdict is verdict, finding
