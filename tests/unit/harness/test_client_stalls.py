"""What a process of clients records of its stalls: each moment once, in a file that only a stall makes."""

from pathlib import Path

import pytest

from support.built_runs import good_run
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.errors import UsageError
from upheaval.records import ClientStall, RunFolder, StallLog, seal
from upheaval_node.types import MS, Now


def at(ms: int) -> Now:
    return Now(ms * MS, 0)


def test_clients_that_stall_together_record_a_moment_once() -> None:
    stalls: list[ClientStall] = []
    log = StallLog(stalls.append)
    for end_ms, stall_ms in ((1000, 100), (1001, 99), (1020, 120), (1080, 90), (1300, 50)):
        log.note(at(end_ms), stall_ms * MS)
    assert stalls == [
        ClientStall(900 * MS, 1000 * MS),
        ClientStall(1000 * MS, 1080 * MS),
        ClientStall(1250 * MS, 1300 * MS),
    ]


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
