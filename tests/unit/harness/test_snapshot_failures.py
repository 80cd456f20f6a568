"""What a failed snapshot excuses: only what the same process had to do afterwards."""

import json
import struct
from pathlib import Path

import pytest

from upheaval.checkers.evidence.absence import check_absence
from upheaval.checkers.evidence.admin_commands import CommandEvidence, admin_commands_proved
from upheaval.checkers.evidence.recordings import snapshot_records
from upheaval.checkers.evidence.trace_facts import facts_of_members
from upheaval.checkers.states.backup_names import first_snapshot
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import AdminCommand, ControlRecord, Json, Manifest, RunFolder
from upheaval_chaos.record import Proof
from upheaval_node.types import S

Line = dict[str, Json]
AT, LATER = 4096, 8192
MARKS = ("cluster/cluster-mark.dat", "archive/archive-mark.dat", "cluster/cluster-mark-service-0.dat")


def line(second: int, event: str, **fields: Json) -> Line:
    return {"ts": second * S, "component": "all", "event": event, **fields}


def snapshot_at(second: int, position: int) -> tuple[Line, ...]:
    return (
        line(second, "module_state", old="ACTIVE", new="SNAPSHOT"),
        line(second, "service-ack", log_position=position),
        line(second, "module_state", old="SNAPSHOT", new="ACTIVE"),
    )


FAILURE = line(10, "error", kind="snapshot", text="no space")
RESTART = line(20, "process-start")


def run_of(path: Path, *lines: Line, position: int | None = None, is_valid: bool = True) -> RunFolder:
    """A run of one member with these lines after its start, and a snapshot in its recording log."""
    run = RunFolder(path)
    run.create(Manifest("run-1", "process", 1, "test", 0))
    run.scenario_file.write_text("")
    folder = run.member(0)
    folder.cluster.mkdir(parents=True)
    folder.archive.mkdir()
    folder.trace.write_text("".join(json.dumps(each) + "\n" for each in (line(0, "process-start"), *lines)))
    for name in MARKS:
        (folder.path / name).touch()
    if position is not None:
        kind = 1 if is_valid else 1 - (1 << 31)
        folder.recording_log.write_bytes(struct.pack("<qqqqqii16x", 3, 0, 0, position, 1, -1, kind))
    return run


def complete(run: RunFolder) -> Finding:
    manifest = run.read_manifest()
    return check_absence(run, manifest, facts_of_members(run, manifest.members))


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ((FAILURE, *snapshot_at(30, AT)), Verdict.VALID),
        ((FAILURE, RESTART, *snapshot_at(30, AT)), Verdict.UNKNOWN),
        ((RESTART, *snapshot_at(30, AT)), Verdict.UNKNOWN),
    ],
    ids=["same process", "next process", "no failure"],
)
def test_a_snapshot_that_a_process_without_failure_traced_is_there(
    lines: tuple[Line, ...], verdict: Verdict, tmp_path: Path
) -> None:
    finding = complete(run_of(tmp_path, *lines))
    assert finding.verdict is verdict, finding
    assert ("has no snapshot at position 4096" in finding.detail) is (verdict is Verdict.UNKNOWN)


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ((), Verdict.UNKNOWN),
        ((line(40, "error", kind="session", text="a stranger"),), Verdict.UNKNOWN),
        ((line(40, "process-end", status=5), line(50, "process-start")), Verdict.UNKNOWN),
        ((line(40, "process-start"), line(41, "error", kind="snapshot", text="not used")), Verdict.VALID),
    ],
    ids=["nothing", "another error", "an end", "a report"],
)
@pytest.mark.parametrize("before", [(), (FAILURE, RESTART)])
def test_only_an_error_about_snapshots_since_then_makes_one_invalid(
    before: tuple[Line, ...], more: tuple[Line, ...], verdict: Verdict, tmp_path: Path
) -> None:
    finding = complete(run_of(tmp_path, *before, *snapshot_at(30, AT), *more, position=AT, is_valid=False))
    assert finding.verdict is verdict, finding
    assert ("has an invalid snapshot at position 4096" in finding.detail) is (verdict is Verdict.UNKNOWN)


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [((FAILURE,), Verdict.VALID), ((FAILURE, RESTART), Verdict.UNKNOWN), ((RESTART,), Verdict.UNKNOWN)],
    ids=["same process", "next process", "no failure"],
)
def test_a_module_without_a_failure_moves_when_it_is_ordered_to(
    lines: tuple[Line, ...], verdict: Verdict, tmp_path: Path
) -> None:
    earlier = line(5, "module_state", old="INIT", new="ACTIVE")
    run = run_of(tmp_path, earlier, *lines, line(60, "role", role="LEADER"))
    seen: Json = {"snapshot_position": AT}
    control = ControlRecord(AdminCommand.SNAPSHOT, 40 * S, 50 * S, -1, {"0": seen}, Proof(True, "it is there"))
    (finding,) = admin_commands_proved([control], CommandEvidence(traces=facts_of_members(run, 1)))
    assert isinstance(finding, Finding)
    assert finding.verdict is verdict, finding


@pytest.mark.parametrize(
    ("lines", "lost_ns", "known"),
    [
        (snapshot_at(30, AT), -1, (30 * S, AT)),
        ((FAILURE, RESTART, *snapshot_at(30, AT)), -1, (30 * S, AT)),
        ((*snapshot_at(30, AT), line(40, "error", kind="snapshot", text="not used")), -1, None),
        (snapshot_at(30, AT), 20 * S, (30 * S, AT)),
        (snapshot_at(30, AT), 30 * S, None),
        (snapshot_at(30, LATER), -1, None),
    ],
)
def test_a_member_has_a_snapshot_since_it_took_one_that_it_kept(
    lines: tuple[Line, ...], lost_ns: int, known: tuple[int, int] | None, tmp_path: Path
) -> None:
    run = run_of(tmp_path, *lines, position=AT)
    (facts,) = facts_of_members(run, 1)
    assert first_snapshot(snapshot_records(run.member(0).recording_log), facts, lost_ns) == known
