"""The promise that a cluster which was ended ends at one position: kept, and broken in each way that files can show."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from support.built_runs import BuiltRun, good_run
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.protocol.endings import check_endings
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import (
    ControlRecord,
    Manifest,
    RunFolder,
    seal,
)
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.types import S

SERVICES = 2
TERM = 1
RECORD, POSITION = 64, 24
ACK = "TerminationAck"


def add_message(ended: "Ended", owner: int, kind: str, message: str, ns: int, **fields: object) -> None:
    """A line before the end of a member about a message of its term."""
    line = {"ts": ns, "event": kind, "message": message, "leadership_term_id": TERM, "log_position": ended.position}
    ended.traces[owner].insert(0, {**line, **fields})


def announce(ended: "Ended") -> None:
    """Member 0 announces the end, and all acknowledgements are sent and received."""
    for member_id in (1, 2):
        add_message(ended, 0, "receive", ACK, 2, member_id=member_id)
        add_message(ended, member_id, "send", ACK, 1, member_id=member_id, to=0)
    for member_id in (1, 2):
        add_message(ended, 0, "send", "TerminationPosition", 1, to=member_id)


def wait(ended: "Ended", waits_ns: int = 1) -> None:
    """The leader takes so long until it ends."""
    ended.is_ordered = False
    event(ended, 0, "cluster-end")["ts"] = 2 + waits_ns
    event(ended, 0, "process-end")["ts"] = 2 + waits_ns


class Ended:
    """A good run at whose end the cluster was ended. Each test changes one thing before it is written."""

    def __init__(self) -> None:
        self.run: BuiltRun = good_run()
        self.position = 0
        self.traces: list[list[dict[str, object]]] = []
        self.recorded = [0, 0, 0]
        self.order = ControlRecord("shutdown", 1, 2, 0, {}, Proof(True, "ended by themselves"))
        self.is_ordered = True
        self.seen: dict[str, dict[str, object]] = {}

    def write(self, path: Path, change: Callable[["Ended"], None]) -> Finding:
        run = self.run.write(path)
        self.position = self.run.end_positions[0]
        self.traces = [self._trace() for _ in range(3)]
        self.recorded = [self.position] * 3
        self.seen = {str(m): {"exit_statuses": [0], "snapshot_position": self.position} for m in range(3)}
        announce(self)
        change(self)
        for member_id in range(3):
            self._write_member(run, member_id)
        if self.is_ordered:
            order = self.order
            run.add_control(ControlRecord(order.what, 1, 2, 0, dict(self.seen), order.proof))  # type: ignore[arg-type]
        seal(run)
        report = verify_run(path)
        asked = (
            Promise.RUN_CONVERGED,
            Promise.FAULTS_IN_TIME,
            Promise.ENDS_AT_ONE_POSITION,
            Promise.ONE_LEADER_A_TERM,
            Promise.EVIDENCE_COMPLETE,
            Promise.NO_UNEXPLAINED_END,
        )
        others = [finding for finding in report.findings if finding.promise not in asked]
        assert {finding.verdict for finding in others} == {Verdict.VALID}, others
        return report.finding(Promise.ENDS_AT_ONE_POSITION)

    def _trace(self) -> list[dict[str, object]]:
        """What follows the trace of a good run."""
        at = self.position
        return [
            *({"event": "service-terminate", "service_id": n, "log_position": at} for n in range(SERVICES)),
            {
                "event": "cluster-end",
                "log_position": at,
                "leadership_term_id": TERM,
                "requested_term_id": TERM,
                "services": SERVICES,
            },
            {"event": "process-end", "status": 0},
        ]

    def _write_member(self, run: RunFolder, member_id: int) -> None:
        folder = run.member(member_id)
        lines = [json.dumps({"ts": 1, "component": "all", **fields}) for fields in self.traces[member_id]]
        with folder.trace.open("a") as stream:
            stream.writelines(line + "\n" for line in lines)
        content = bytearray(folder.recording_log.read_bytes())
        struct.pack_into("<q", content, len(content) - RECORD + POSITION, self.recorded[member_id])
        folder.recording_log.write_bytes(content)


def event(ended: Ended, member_id: int, name: str) -> dict[str, object]:
    return next(fields for fields in ended.traces[member_id] if fields["event"] == name)


def test_an_end_at_one_position_is_valid(tmp_path: Path) -> None:
    ended = Ended()
    finding = ended.write(tmp_path, lambda _: None)
    assert finding == Finding(Promise.ENDS_AT_ONE_POSITION, Verdict.VALID, f"members 0, 1, 2 at {ended.position}")


def test_a_run_that_ended_no_cluster_says_nothing_of_it(tmp_path: Path) -> None:
    good_run().write(tmp_path)
    assert Promise.ENDS_AT_ONE_POSITION not in {finding.promise for finding in verify_run(tmp_path).findings}


def test_an_end_that_nobody_wrote_down_is_judged_as_well(tmp_path: Path) -> None:
    def change(ended: Ended) -> None:
        ended.is_ordered = False
        event(ended, 2, "cluster-end")["log_position"] = ended.position + 32

    finding = Ended().write(tmp_path, change)
    assert finding.verdict is Verdict.INVALID


def _elsewhere(ended: Ended) -> None:
    event(ended, 1, "cluster-end")["log_position"] = ended.position - 32


def _told_twice(ended: Ended) -> None:
    ended.traces[1].append(dict(event(ended, 1, "service-terminate")))


def _not_told(ended: Ended) -> None:
    ended.traces[2].remove({"event": "service-terminate", "service_id": 1, "log_position": ended.position})


def _told_elsewhere(ended: Ended) -> None:
    event(ended, 0, "service-terminate")["log_position"] = ended.position - 32


def _failed(ended: Ended) -> None:
    event(ended, 2, "process-end")["status"] = 7


def _not_recorded(ended: Ended) -> None:
    ended.recorded[1] = -1


def _recorded_elsewhere(ended: Ended) -> None:
    ended.recorded[1] = ended.position - 64


def _went_on(ended: Ended) -> None:
    ended.traces[0] = []


def _without_snapshot(ended: Ended) -> None:
    ended.seen["1"]["snapshot_position"] = 64


def _seen_to_fail(ended: Ended) -> None:
    ended.seen["1"]["exit_statuses"] = [0, 9]


def drop(ended: Ended, member_id: int, message: str) -> None:
    ended.traces[member_id] = [fields for fields in ended.traces[member_id] if fields.get("message") != message]


def test_a_leader_that_has_all_acknowledgements_ends_at_once(tmp_path: Path) -> None:
    assert Ended().write(tmp_path, wait).verdict is Verdict.VALID


def test_a_leader_without_acknowledgements_ends_after_its_time_out(tmp_path: Path) -> None:
    """One was sent, and did not arrive."""

    def change(ended: Ended) -> None:
        wait(ended, 60 * S)
        drop(ended, 0, ACK)

    assert Ended().write(tmp_path, change).verdict is Verdict.VALID


def _impatient(ended: Ended) -> None:
    wait(ended)
    drop(ended, 0, ACK)


def _ends_without_a_word(ended: Ended) -> None:
    wait(ended, 60 * S)
    drop(ended, 0, ACK)
    drop(ended, 2, ACK)


def _announced_elsewhere(ended: Ended) -> None:
    wait(ended)
    for fields in ended.traces[0]:
        if fields.get("message") == "TerminationPosition":
            fields["log_position"] = ended.position + 32


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_impatient, "did not wait for the acknowledgement of member 1"),
        (_ends_without_a_word, "did not acknowledge that to its leader"),
        (_announced_elsewhere, "announced the end at"),
        (_elsewhere, "in term 1 member 0 ended at"),
        (_told_twice, "notified service 0 of its end 2 times"),
        (_not_told, "notified service 1 of its end 0 times"),
        (_told_elsewhere, "member 0, which ended at"),
        (_failed, "ended process 'all' with status 7"),
        (_not_recorded, "the end of term 1 at -1 in its recording log"),
        (_recorded_elsewhere, "in its recording log"),
        (_went_on, "member 0 did not end with the others at"),
        (_without_snapshot, "with its last snapshot at 64"),
        (_seen_to_fail, "member 1 ended with statuses [0, 9]"),
    ],
)
def test_what_breaks_it_is_named(tmp_path: Path, change: Callable[[Ended], None], text: str) -> None:
    finding = Ended().write(tmp_path, change)
    assert finding.verdict is Verdict.INVALID, finding
    assert text in finding.detail


@pytest.mark.parametrize("is_seen", [False, True])
def test_an_orderly_end_that_was_cut_short_is_unknown(tmp_path: Path, is_seen: bool) -> None:
    def change(ended: Ended) -> None:
        if is_seen:
            ended.seen["1"]["exit_statuses"] = [0, 8]
        else:
            event(ended, 2, "process-end")["status"] = 8

    finding = Ended().write(tmp_path, change)
    assert finding.verdict is Verdict.UNKNOWN, finding
    assert ("member 1 ended with statuses [0, 8]" if is_seen else "with status 8") in finding.detail


def test_a_log_that_goes_on_past_the_end_is_invalid(tmp_path: Path) -> None:
    def change(ended: Ended) -> None:
        for member_id in range(3):
            for fields in ended.traces[member_id]:
                if "log_position" in fields:
                    fields["log_position"] = ended.position - 64
            ended.recorded[member_id] = ended.position - 64
            ended.seen[str(member_id)]["snapshot_position"] = ended.position - 64

    finding = Ended().write(tmp_path, change)
    assert finding.verdict is Verdict.INVALID
    assert "has a log that ends at" in finding.detail


def test_an_end_before_another_start_may_be_followed_by_more_log(tmp_path: Path) -> None:
    def change(ended: Ended) -> None:
        for member_id in range(3):
            ended.traces[member_id].append({"event": "process-start"})

    assert Ended().write(tmp_path, change).verdict is Verdict.VALID


def _killed(ended: Ended) -> None:
    ended.traces[1].remove({"event": "process-end", "status": 0})


def _without_announcement(ended: Ended) -> None:
    drop(ended, 0, "TerminationPosition")


def _without_words(ended: Ended) -> None:
    for trace in ended.traces:
        trace.clear()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_killed, "recorded no exit status"),
        (_without_announcement, "no trace has the announcement of the end in term 1"),
        (_without_words, "no trace shows the shutdown of members 0, 1, 2"),
    ],
)
def test_what_nobody_knows_is_unknown(tmp_path: Path, change: Callable[[Ended], None], text: str) -> None:
    finding = Ended().write(tmp_path, change)
    assert finding.verdict is Verdict.UNKNOWN, finding
    assert text in finding.detail


@pytest.mark.parametrize(
    ("what", "members", "component", "begin_ns", "heal_ns", "verdict"),
    [
        ("kill", (1,), None, 1, 9, Verdict.VALID),
        ("die-in-change", (1,), None, 1, None, Verdict.VALID),
        ("power-cut", (0, 1, 2), None, 0, 1, Verdict.VALID),
        ("kill", (1,), None, -5, 0, Verdict.UNKNOWN),
        ("kill", (0,), None, 1, 9, Verdict.UNKNOWN),
        ("kill", (11,), None, 1, 9, Verdict.UNKNOWN),
        ("kill", (1, 2), "all", 1, 9, Verdict.VALID),
        ("kill", (1,), "archive", 1, 9, Verdict.UNKNOWN),
        ("pause", (1,), None, 1, 9, Verdict.UNKNOWN),
        ("memory-limit", (0, 1), None, -5, 9, Verdict.VALID),
        ("memory-limit", (0, 1), None, -5, 0, Verdict.UNKNOWN),
        ("memory-limit", (0, 1), None, -5, None, Verdict.VALID),
        ("cpu-limit", (0, 1), None, -5, 9, Verdict.UNKNOWN),
    ],
)
def test_who_is_killed_between_its_end_and_that_of_its_process_has_no_exit_status(
    tmp_path: Path,
    what: str,
    members: tuple[int, ...],
    component: str | None,
    begin_ns: int,
    heal_ns: int | None,
    verdict: Verdict,
) -> None:
    """Found by seed 11163 of the campaign."""
    times = (begin_ns, begin_ns, heal_ns, heal_ns)
    dead = Proof(True, "dead; the kernel ended 1 process of member 1 for want of memory")
    proofs = (dead, None if heal_ns is None else Proof(True, "alive"))
    fault = FaultRecord(what, "", *times, *proofs, members=members, component=component)
    RunFolder(tmp_path).add_fault(fault)
    assert Ended().write(tmp_path, _killed).verdict is verdict


def test_a_dead_follower_is_asked_for_nothing(tmp_path: Path) -> None:
    def change(ended: Ended) -> None:
        ended.traces[2] = [{"event": "process-start"}]
        drop(ended, 0, "TerminationPosition")
        del ended.seen["2"]

    finding = Ended().write(tmp_path, change)
    assert finding == Finding(Promise.ENDS_AT_ONE_POSITION, Verdict.VALID, finding.detail)
    assert finding.detail.startswith("members 0, 1 at")


def test_a_missing_trace_makes_it_unknown(tmp_path: Path) -> None:
    ended = Ended()
    ended.write(tmp_path, lambda _: None)
    RunFolder(tmp_path).member(1).trace.unlink()
    finding = verify_run(tmp_path).finding(Promise.ENDS_AT_ONE_POSITION)
    assert finding.verdict is Verdict.UNKNOWN
    assert "trace of member 1 is missing" in finding.detail


@pytest.mark.parametrize(
    ("members", "begin_ns", "verdict"),
    [
        ((1,), 1, Verdict.VALID),
        ((0,), 1, Verdict.INVALID),
        ((1,), -5, Verdict.INVALID),
    ],
    ids=["wiped", "another one wiped", "wiped before"],
)
def test_the_recording_log_of_a_member_that_was_wiped_is_not_that_of_its_end(
    members: tuple[int, ...], begin_ns: int, verdict: Verdict, tmp_path: Path
) -> None:
    proofs = (Proof(True, "its files are gone"), Proof(True, "one is there"))
    fault = FaultRecord("wipe", "", begin_ns, begin_ns, begin_ns + 1, begin_ns + 1, *proofs, members=members)
    RunFolder(tmp_path).add_fault(fault)
    assert Ended().write(tmp_path, _recorded_elsewhere).verdict is verdict


@pytest.mark.parametrize(
    ("begin_ns", "is_proved", "verdict"),
    [(2, True, Verdict.VALID), (9, True, Verdict.INVALID), (2, False, Verdict.UNKNOWN)],
    ids=["before", "after", "not proved"],
)
def test_a_wipe_after_the_next_start_explains_no_shorter_log_at_it(
    begin_ns: int, is_proved: bool, verdict: Verdict, tmp_path: Path
) -> None:
    member = tmp_path / "member-0"
    member.mkdir()
    started = [
        {"ts": 1, "event": "process-start", "component": "all"},
        {"ts": 1, "event": "cluster-end", "log_position": 4096, "leadership_term_id": 0, "requested_term_id": 0}
        | {"services": 0},
        {"ts": 2, "event": "process-end", "component": "all", "status": 0},
        {"ts": 3, "event": "process-start", "component": "all"},
        {"ts": 4, "event": "election_state", "append_position": 1024},
    ]
    run = RunFolder(tmp_path)
    manifest = Manifest("run-1", "process", 1, "test", 1)
    run.write_manifest(manifest)
    run.member(0).trace.write_text("".join(json.dumps(each) + "\n" for each in started))
    proofs = (Proof(is_proved, "its files are gone"), Proof(True, "one is there"))
    run.add_fault(FaultRecord("wipe", "", begin_ns, begin_ns, begin_ns + 1, begin_ns + 1, *proofs, members=(0,)))
    (finding,) = check_endings(run, manifest, [])
    assert isinstance(finding, Finding)
    assert finding.verdict is verdict, finding


@pytest.mark.parametrize("name", ["log_position", "leadership_term_id", "requested_term_id", "services"])
@pytest.mark.parametrize("members", [(0, 1, 2), (1,)], ids=["of all", "of one"])
def test_an_end_without_its_numbers_is_unknown(name: str, members: tuple[int, ...], tmp_path: Path) -> None:
    def change(ended: Ended) -> None:
        ended.is_ordered = False
        for member_id in members:
            event(ended, member_id, "cluster-end")[name] = str(ended.position)

    finding = Ended().write(tmp_path, change)
    assert finding.verdict is Verdict.UNKNOWN
    assert finding.members == (members[0],)
    assert finding.detail.startswith(f"member-{members[0]}/trace.jsonl:")
    assert finding.detail.endswith(f"is 'cluster-end' without {name}")


def test_an_end_without_the_start_of_its_process_is_unknown(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    manifest = Manifest("run-1", "process", 1, "test", 1)
    run.write_manifest(manifest)
    run.member(0).path.mkdir()
    run.member(0).trace.write_text('{"ts": 1, "event": "cluster-end", "component": "all", "log_position": 96}\n')
    (finding,) = check_endings(run, manifest, [])
    assert isinstance(finding, Finding)
    assert finding.verdict is Verdict.UNKNOWN, finding
