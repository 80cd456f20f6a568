"""Several programs that change the records of one run at the same time."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from upheaval.errors import UsageError
from upheaval.records import Failure, Manifest, RunFolder
from upheaval.records.run_seal import add_failure
from upheaval_chaos.record import FaultRecord, Proof

WRITERS = 4
CHANGES = 25


def _injected(writer: int, number: int) -> FaultRecord:
    at_ns = 1000 * writer + number
    return FaultRecord("kill", f"member-{writer}", at_ns, at_ns, inject_proof=Proof(True, "gone"), members=(writer,))


def _healed(fault: FaultRecord) -> FaultRecord:
    at_ns = fault.inject_end_ns + 1
    return replace(fault, heal_begin_ns=at_ns, heal_end_ns=at_ns, heal_proof=Proof(True, "back"))


def test_no_fault_is_lost_while_another_is_healed(tmp_path: Path) -> None:
    def change(writer: int) -> None:
        run = RunFolder(tmp_path)
        for number in range(CHANGES):
            fault = _injected(writer, number)
            run.add_fault(fault)
            run.heal_fault(_healed(fault))

    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(change, range(WRITERS)))
    wanted = {_healed(_injected(writer, number)) for writer in range(WRITERS) for number in range(CHANGES)}
    assert set(RunFolder(tmp_path).read_faults()) == wanted


def test_no_change_of_the_manifest_is_lost(tmp_path: Path) -> None:
    RunFolder(tmp_path).create(Manifest("run-1", "process", 3, "test", 0))

    def change(writer: int) -> None:
        for number in range(CHANGES):
            add_failure(RunFolder(tmp_path), Failure("settled", f"{writer} {number}"))

    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(change, range(WRITERS)))
    assert len(set(RunFolder(tmp_path).read_manifest().failures)) == WRITERS * CHANGES


def test_the_first_of_two_programs_that_heal_one_fault_records_it(tmp_path: Path) -> None:
    run, fault = RunFolder(tmp_path), _injected(1, 0)
    run.add_fault(fault)
    run.heal_fault(_healed(fault))
    run.heal_fault(replace(_healed(fault), heal_end_ns=99))
    assert list(run.read_faults()) == [_healed(fault)]
    with pytest.raises(UsageError, match="has no kill of member-2 to heal"):
        run.heal_fault(_healed(_injected(2, 0)))
