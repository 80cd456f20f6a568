"""When findings happened: from what dates each of them, on runs made by hand."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from support.built_runs import good_run
from upheaval.checkers.evidence.trace_facts import facts_of_members
from upheaval.checkers.liveness.bounds import check_bounds
from upheaval.checkers.liveness.unexplained import check_ends
from upheaval.checkers.promises import Promise
from upheaval.checkers.protocol.leader_claims import traced_claims
from upheaval.checkers.protocol.leaders import one_leader_a_term
from upheaval.checkers.protocol.protocol import check_protocol
from upheaval.checkers.verdict import Finding, Result, Verdict
from upheaval.records import Function, Json, Manifest, Operation, Outcome, RunFolder, TraceEvent
from upheaval.report import FaultFigures, Moments, measure_run, scene_of
from upheaval.report.elections import elections_of
from upheaval.report.figures import DOWN, ELECTION, LEADER, member_spans
from upheaval.report.moments import Moment, beside_fault
from upheaval.ui.run_page import page_of_run
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.types import MS, S

Line = dict[str, Json]


def line(second: float, event: str, **fields: Json) -> Line:
    return {"ts": round(second * S), "epoch_ms": round(second * 1000), "event": event, **fields}


def message(second: float, event: str, name: str, **fields: Json) -> Line:
    return line(second, event, message=name, **fields)


def run_of(path: Path, *traces: Sequence[Line]) -> RunFolder:
    run = RunFolder(path)
    run.create(Manifest("run-1", "process", len(traces), "test", 1))
    for member_id, lines in enumerate(traces):
        run.member(member_id).path.mkdir()
        run.member(member_id).trace.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return run


def broken_of(promise: Promise, results: Sequence[Result]) -> Finding:
    (finding,) = [one for one in results if isinstance(one, Finding) and one.promise is promise]
    assert finding.verdict is Verdict.INVALID
    return finding


START = line(1, "process-start", component="all")


def test_a_silence_has_its_begin_and_its_end_and_the_fault_that_was_on(tmp_path: Path) -> None:
    term: Line = {"leadership_term_id": 3, "leader_member_id": 0}
    closed = line(2, "election_state", state="CLOSED", **term)
    led = [START, line(2, "leadership_term", source="election", **term), closed]
    followed = [
        *led,
        message(7, "receive", "CommitPosition", **term),
        message(12.5, "receive", "CommitPosition", **term),
    ]
    run = run_of(tmp_path, led, followed, [START])
    moment = Moments(run).of(
        broken_of(
            Promise.BOUNDS_KEPT,
            check_bounds(run, run.read_manifest(), facts_of_members(run, run.read_manifest().members)),
        )
    )
    assert moment == Moment(round(11.5 * S), is_exact=True, since_ns=6 * S)
    assert str(moment) == "6.000 s to 11.500 s into the run"
    cut = FaultFigures("blackhole", "links", 7 * S, 9 * S, "", None, None, None, None, None)
    over = replace(cut, what="kill", begin=2 * S, end=3 * S)
    assert beside_fault(moment, [cut, over]) == "4.5 s after blackhole links began"
    # What lasted is named, even if a shorter one began later and was over before.
    assert beside_fault(replace(moment, since_ns=10 * S), [replace(over, end=None), cut]).startswith("9.5 s after kill")


def test_a_vote_has_the_moment_of_the_line_that_breaks_the_promise(tmp_path: Path) -> None:
    vote: Line = {"candidate_term_id": 1, "log_leadership_term_id": 0, "log_position": 64}
    own = message(2, "send", "RequestVote", candidate_member_id=0, **vote)
    asked = message(3, "receive", "RequestVote", candidate_member_id=2, **vote)
    given = message(4, "send", "Vote", candidate_member_id=2, follower_member_id=0, vote=True, **vote)
    commit = message(2.5, "send", "CommitPosition", log_position=64)
    run = run_of(tmp_path, [START, own, asked, given], [START], [START, commit])
    finding = broken_of(Promise.VOTES_KEPT, check_protocol(run, run.read_manifest()))
    assert finding.position == 64
    assert Moments(run).of(finding) == Moment(3 * S, is_exact=True)


def test_an_unexplained_end_has_its_moment(tmp_path: Path) -> None:
    run = run_of(tmp_path, [START, line(5, "process-end", component="all", status=77)])
    finding = check_ends(run, run.read_manifest(), facts_of_members(run, 1))
    assert finding.verdict is Verdict.INVALID
    assert Moments(run).of(finding) == Moment(4 * S, is_exact=True)


def test_two_leaders_have_the_moment_of_the_second_claim() -> None:
    events = [
        (member_id, TraceEvent(1, ns, "role", {"role": "LEADER", "leadership_term_id": 3}))
        for member_id, ns in ((0, 70), (1, 50))
    ]
    finding = one_leader_a_term(claim for event in events for claim in traced_claims(*event))
    assert finding.when_ns == (70, 70)


@pytest.mark.parametrize(("position", "moment"), [(64, Moment(2 * S, is_exact=False)), (200, None)])
def test_a_position_without_an_answer_has_the_moment_of_its_commit(
    position: int, moment: Moment | None, tmp_path: Path
) -> None:
    commits = [
        message(second, "send", "CommitPosition", log_position=at) for second, at in ((2, 32), (3, 96), (4, 160))
    ]
    run = run_of(tmp_path, [START, *commits])
    finding = Finding(Promise.SNAPSHOT_IS_REPLAY, Verdict.INVALID, "differs", position=position)
    assert Moments(run).of(finding) == moment


@pytest.mark.parametrize(
    ("position", "moment"),
    [
        (None, Moment(2 * S, is_exact=True)),
        (96, Moment(2 * S, is_exact=True)),
        (160, Moment(6 * S, is_exact=False)),
        (320, Moment(8 * S, is_exact=False)),
    ],
)
def test_an_entry_after_its_operation_has_its_own_moment(position: int | None, moment: Moment, tmp_path: Path) -> None:
    """A timer that fires again names the operation that scheduled it, and breaks the promise where it fires."""
    run = run_of(tmp_path, [START, message(9, "send", "CommitPosition", log_position=320)])
    operations = [
        Operation(number, 1, Function.SCHEDULE, "t", 300, begin * S, (begin + 1) * S, Outcome.OK, position=position_at)
        for number, begin, position_at in ((7, 2, 96), (8, 6, 192))
    ]
    run.history_file.write_text("".join(operation.to_json() + "\n" for operation in operations))
    finding = Finding(Promise.TIMERS_KEPT, Verdict.INVALID, "fired again", position=position, operation=7)
    assert Moments(run).of(finding) == moment


def event(ns: int, name: str, **fields: Json) -> TraceEvent:
    return TraceEvent(1, ns, name, fields)


def test_a_member_is_down_from_its_kill_on_and_else_runs_until_the_end() -> None:
    leads = [event(0, "process-start"), event(10, "role", new="LEADER")]
    up = [(0, 10, ELECTION)]
    spans = [(span.begin, span.end, span.state) for span in member_spans(leads, 0, 100)]
    assert spans == [*up, (10, 100, LEADER)]
    spans = [(span.begin, span.end, span.state) for span in member_spans(leads, 0, 100, [40])]
    assert spans == [*up, (10, 40, LEADER), (40, 100, DOWN)]
    again = [*leads, event(60, "process-start")]
    spans = [(span.begin, span.end, span.state) for span in member_spans(again, 0, 100, [40])]
    assert spans == [*up, (10, 40, LEADER), (40, 60, DOWN), (60, 100, ELECTION)]


def test_the_kills_of_a_member_are_proved_faults_that_end_its_consensus_module(tmp_path: Path) -> None:
    run = run_of(tmp_path, [START, line(2, "role", new="LEADER")])
    kill = FaultRecord("kill", "member-0", 3 * S, 3 * S, inject_proof=Proof(True, "gone"), members=(0,))
    run.add_fault(replace(kill, component="archive"))
    run.add_fault(replace(kill, what="pause"))
    run.add_fault(replace(kill, inject_proof=Proof(False, "it runs")))
    assert measure_run(run).members[0][-1].state == LEADER
    run.add_fault(replace(kill, inject_begin_ns=4 * S, inject_end_ns=4 * S, heal_begin_ns=5 * S, heal_end_ns=5 * S))
    assert [(span.begin, span.state) for span in measure_run(run).members[0]][-1] == (3 * S, DOWN)


SHORT = FaultRecord("memory-limit", "member-0", 2 * S, 2 * S, inject_proof=Proof(True, "met"), members=(0,))
ENDED = "the kernel ended 1 process of member 0 for want of memory"
AGAIN = [line(4, "process-start", component="all"), line(5, "role", new="LEADER")]


@pytest.mark.parametrize(
    ("evidence", "more", "last"),
    [
        (ENDED, [], (3, DOWN)),
        (ENDED.replace("1 process", "2 processes"), AGAIN, (5, DOWN)),
        (ENDED, AGAIN, (5, LEADER)),
        ("met", [], (3, LEADER)),
        (ENDED, [line(4, "process-end", component="all"), *AGAIN], (5, DOWN)),
    ],
    ids=["ended", "ended twice", "ended once of two", "not ended", "ended after an ordered end"],
)
def test_a_member_that_the_kernel_ended_is_down_from_its_last_event_on(
    evidence: str, more: list[Line], last: tuple[int, str], tmp_path: Path
) -> None:
    run = run_of(tmp_path, [START, line(3, "role", new="LEADER", component="all"), *more])
    run.add_fault(replace(SHORT, inject_proof=Proof(True, evidence)))
    # The run goes on.
    run.add_fault(FaultRecord("slow", "x", 9 * S, 9 * S, 10 * S, 10 * S))
    span = measure_run(run).members[0][-1]
    assert (span.begin, span.state) == ((last[0] - 1) * S, last[1])


def test_a_line_of_a_process_that_read_no_clock_does_not_begin_the_run(tmp_path: Path) -> None:
    never_ran = line(0, "service-state", new="CLOSED")
    run = run_of(tmp_path, [START, line(2, "role", new="LEADER"), never_ran, line(3, "process-end")])
    figures = measure_run(run)
    assert figures.length_ns == 2 * S
    assert figures.members[0][0].state == ELECTION


def test_all_times_of_a_page_have_one_origin(tmp_path: Path) -> None:
    """Elections count from the first event of a member, the page from the first thing of the run."""
    run = run_of(
        tmp_path,
        [
            line(2.5, "process-start", component="all"),
            line(3, "election_state", state="INIT", reason="node started"),
            line(4.5, "election_state", state="CANDIDATE_BALLOT", candidate_term_id=1),
            line(0, "service-state", new="CLOSED"),
        ],
    )
    run.add_fault(FaultRecord("pause", "member-0", S, S, 2 * S, 2 * S))
    (election,) = elections_of(run)
    scene = scene_of(run, run.read_manifest(), measure_run(run), [election])
    assert scene["elections"][0]["begin"] == 2 * S
    assert '<td class="n">2 s</td><td class="n">1</td><td class="n">member 0</td>' in page_of_run(tmp_path)


def test_a_break_that_lasted_is_a_band_of_the_scene(tmp_path: Path) -> None:
    run = good_run().write(tmp_path)
    finding = Finding(Promise.BOUNDS_KEPT, Verdict.INVALID, "silent")
    moment = Moment(300 * MS, is_exact=True, since_ns=200 * MS)
    scene = scene_of(run, run.read_manifest(), measure_run(run), [], {finding: moment})
    assert [(one["begin"], one["end"]) for one in scene["breaks"]] == [(200 * MS, 300 * MS)]
