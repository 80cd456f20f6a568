"""A watch of a run in which the files of a member are damaged: the damage is no fault of the cluster, what stays is."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from support.built_runs import good_run
from support.growing_runs import GrowingRun
from support.watching import Reported
from upheaval.checkers.evidence.recordings import RecordedLog
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.watch.watch import Watch
from upheaval_chaos.file_faults import FileFaultKind
from upheaval_chaos.record import FaultRecord, Proof

OPERATIONS = 1200
SHARE = 0.6
GONE = 2**22 + 1
"""No process has this id: it is above the most of Linux."""


@pytest.fixture
def growing(tmp_path: Path) -> GrowingRun:
    good_run(OPERATIONS).write(tmp_path / "finished")
    run = GrowingRun(tmp_path / "finished", tmp_path / "run")
    run.put(SHARE)
    return run


def invert(growing: GrowingRun, member: int) -> None:
    """The last byte of a message in a member's log, as `damage bytes` does."""
    offsets = next(RecordedLog(growing.source.member(member)).segments()).offsets
    (segment,) = growing.run.member(member).archive.glob("*.rec")
    content = bytearray(segment.read_bytes())
    offset = offsets[len(offsets) // 4]
    content[offset + int.from_bytes(content[offset : offset + 4], "little") - 1] ^= 0xFF
    segment.write_bytes(content)


def damage(member: int) -> FaultRecord:
    return FaultRecord(FileFaultKind.DAMAGE, f"member-{member}", 5, 6, members=(member,))


def healed(fault: FaultRecord) -> FaultRecord:
    return replace(fault, heal_begin_ns=7, heal_end_ns=8, heal_proof=Proof(True, "started"))


@contextmanager
def without_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Counters that are written meanwhile are those of a process that has ended."""
    with monkeypatch.context() as patched:
        patched.setattr("os.getpid", lambda: GONE)
        yield


def watched(growing: GrowingRun) -> tuple[Watch, Reported]:
    reported = Reported()
    watch = Watch(growing.run, reported, 0.0)
    watch.look()
    return watch, reported


@pytest.mark.parametrize("member", [0, 1])
def test_bytes_that_an_open_fault_changed_are_no_finding(member: int, growing: GrowingRun) -> None:
    invert(growing, member)
    fault = damage(member)
    growing.run.add_fault(fault)
    watch, reported = watched(growing)
    assert reported.findings == []
    assert reported.now.read[member] == 0
    assert all(reported.now.read[other] > 0 for other in range(3) if other != member)
    # It truncates its log and catches up.
    growing.put(SHARE)
    growing.run.heal_fault(healed(fault))
    watch.look()
    assert reported.now.read[member] == reported.now.read[2]
    growing.end()
    watch.look()
    assert watch.end() is not Verdict.INVALID, reported.report
    assert (watch.broken, reported.findings) == ({}, [])


@pytest.mark.parametrize("member", [0, 1])
def test_the_same_bytes_without_a_fault_are_a_finding(member: int, growing: GrowingRun) -> None:
    invert(growing, member)
    watch, reported = watched(growing)
    assert Promise.LOGS_EQUAL in reported.broken
    growing.end()
    watch.look()
    assert watch.end() is Verdict.INVALID


def test_a_fault_of_one_member_excuses_no_other(growing: GrowingRun) -> None:
    growing.run.add_fault(damage(0))
    growing.run.add_fault(FaultRecord("kill", "member-1", 5, 6, members=(1,)))
    invert(growing, 1)
    _, reported = watched(growing)
    assert Promise.LOGS_EQUAL in reported.broken


@pytest.mark.parametrize("is_seen_open", [True, False])
def test_damage_that_stays_after_the_fault_is_a_finding(is_seen_open: bool, growing: GrowingRun) -> None:
    """Also in what was read before the fault."""
    watch, reported = watched(growing)
    assert reported.findings == []
    fault = damage(1)
    growing.run.add_fault(fault)
    invert(growing, 1)
    if is_seen_open:
        watch.look()
        assert reported.findings == []
    growing.run.heal_fault(healed(fault))
    watch.look()
    assert reported.broken == {Promise.LOGS_EQUAL}


def test_counters_of_the_process_before_the_damage_count_nothing(
    growing: GrowingRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They remain until the new process has made its own."""
    with without_process(monkeypatch):
        growing.put(SHARE)
    invert(growing, 1)
    growing.run.add_fault(healed(damage(1)))
    watch, reported = watched(growing)
    assert reported.findings == []
    growing.put(SHARE)
    watch.look()
    assert reported.now.read[1] > 0
    assert reported.findings == []
