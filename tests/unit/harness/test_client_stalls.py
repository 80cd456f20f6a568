"""What a process of clients records of its stalls, in a file that only a stall makes."""

import time
from pathlib import Path

import pytest

from support.built_runs import good_run
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records import ClientStall, RunFolder, seal
from upheaval.stall_watch import LEAST_NS, StallWatch
from upheaval_node.types import MS


def test_a_process_that_could_not_run_is_recorded_until_the_watch_ends() -> None:
    stalls: list[ClientStall] = []
    begin_ns = time.monotonic_ns()
    watch = StallWatch(stalls.append)
    try:
        while not stalls:
            keep_other_threads_waiting()
    finally:
        watch.close()
    assert all(begin_ns <= each.begin_ns and each.end_ns - each.begin_ns >= LEAST_NS for each in stalls)
    count = len(stalls)
    keep_other_threads_waiting()
    assert len(stalls) == count


def keep_other_threads_waiting() -> None:
    """One call of C code, which lets no other thread run: some tenths of a second."""
    sum(range(20_000_000))


def test_a_disk_that_takes_no_record_ends_the_watch_and_nothing_else() -> None:
    tried: list[ClientStall] = []

    def refuse(stall: ClientStall) -> None:
        tried.append(stall)
        raise EnvironmentFault("no space left")

    watch = StallWatch(refuse)
    while not tried:
        keep_other_threads_waiting()
    watch.close()
    assert len(tried) == 1


def test_the_file_has_what_was_added_and_is_there_only_then(tmp_path: Path) -> None:
    run = good_run(count=10).write(tmp_path)
    assert not run.client_stalls_file.exists()
    assert Evidence(run).stall_with_clients is None
    for stall in (ClientStall(5 * MS, 10 * MS), ClientStall(20 * MS, 90 * MS)):
        run.add_client_stall(stall)
    assert list(run.read_client_stalls()) == [ClientStall(5 * MS, 10 * MS), ClientStall(20 * MS, 90 * MS)]
    assert str(Evidence(run).stall_with_clients) == "a stall of 70 ms (client-stalls.jsonl:2)"


def test_the_longer_stall_of_members_and_clients_counts(tmp_path: Path) -> None:
    built = good_run(count=10)
    built.traces[1].append('{"ts":900000000,"event":"loop-stall","stall_ns":80000000}')
    run = built.write(tmp_path)
    run.add_client_stall(ClientStall(20 * MS, 90 * MS))
    evidence = Evidence(run)
    assert str(evidence.stall).startswith("a stall of 80 ms (member-1/trace.jsonl:")
    assert evidence.stall_with_clients == evidence.stall
    run.add_client_stall(ClientStall(20 * MS, 110 * MS))
    assert str(Evidence(run).stall_with_clients) == "a stall of 90 ms (client-stalls.jsonl:2)"


@pytest.mark.parametrize("line", ['{"begin_ns": 2, "end_ns": 1}', '{"begin_ns": 2}', "?"])
def test_a_malformed_line_is_refused_with_its_place(line: str, tmp_path: Path) -> None:
    (tmp_path / "client-stalls.jsonl").write_text(line + "\n")
    with pytest.raises(UsageError, match=r"client-stalls\.jsonl:1: "):
        list(RunFolder(tmp_path).read_client_stalls())


def test_one_that_is_made_up_after_the_run_was_collected_breaks_its_seal(tmp_path: Path) -> None:
    run = good_run(count=10).write(tmp_path)
    seal(run)
    assert verify_run(tmp_path).finding(Promise.EVIDENCE_SEALED).verdict is Verdict.VALID
    run.client_stalls_file.write_text(ClientStall(1, 2).to_json() + "\n")
    finding = verify_run(tmp_path).finding(Promise.EVIDENCE_SEALED)
    assert (finding.verdict, finding.detail.split()[0]) == (Verdict.INVALID, "client-stalls.jsonl")
