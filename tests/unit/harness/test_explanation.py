"""What happens before a moment, on traces made by hand."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.cli.explain import as_text
from upheaval.records import Entry, Failure, Function, Json, Manifest, Operation, Outcome, RuleBroken, RunFolder
from upheaval.report.election_drawing import in_run, label, steps_text
from upheaval.report.elections import Step
from upheaval.report.explanation import (
    STEPS_MAX,
    Knowledge,
    before,
    explain,
    in_order,
    knowledge_of,
    last_of,
    steps_of,
)
from upheaval.report.moments import Moment
from upheaval.ui.run_page import page_of_run
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.trace_kinds import TraceKind


def entry(ns: int, member: int, event: str, message: str = "", to: int | None = None, **fields: Json) -> Entry:
    values: Mapping[str, Json] = fields
    return Entry(member, ns, "consensus", event, message, to, "", values, {})


def sent(ns: int, member: int, to: int, message: str, **fields: Json) -> Entry:
    return entry(ns, member, TraceKind.SEND, message, to, **fields)


def received(ns: int, member: int, message: str, **fields: Json) -> Entry:
    return entry(ns, member, TraceKind.RECEIVE, message, **fields)


def state(ns: int, member: int, name: str, term: int = 0) -> Entry:
    return entry(
        ns, member, TraceKind.ELECTION_STATE, state=name, reason="", leadership_term_id=term, leader_member_id=2
    )


TRACE = [
    state(10, 0, "CANVASS"),
    state(11, 1, "CANVASS"),
    sent(20, 0, 1, "RequestVote", candidateTermId=1),
    sent(21, 2, 0, "AppendPosition", logPosition=64),
    received(30, 1, "RequestVote", candidateTermId=1),
    state(31, 0, "CANDIDATE_BALLOT"),
    sent(40, 1, 0, "Vote", vote=True),
    received(45, 0, "AppendPosition", logPosition=64),
    received(50, 0, "Vote", vote=True),
]


def test_what_a_member_did_and_what_led_to_a_message_that_it_received_is_before() -> None:
    past = [(one.ns, has_arrived) for one, has_arrived in before(TRACE, {1: 41})]
    assert past == [(10, False), (11, False), (20, True), (30, False), (40, False)]
    everything = list(before(TRACE, {0: 50}))
    assert [one.ns for one, _ in everything] == [10, 11, 20, 21, 30, 31, 40, 45, 50]
    assert [one.ns for one, has_arrived in everything if has_arrived] == [20, 21, 40]


def test_nothing_after_the_moment_is_before() -> None:
    assert [one.ns for one, _ in before(TRACE, {0: 44})] == [10, 20, 31]
    assert list(before(TRACE, {2: 20})) == []


def test_steps_are_states_and_messages_once_and_of_steady_ones_in_a_row_the_last() -> None:
    steady = [sent(ns, 2, 0, "AppendPosition", logPosition=ns) for ns in (60, 61, 62)]
    trace = [*TRACE[:3], *steady, state(70, 0, "CLOSED"), sent(80, 2, 0, "AppendPosition", logPosition=80)]
    assert steps_of((one, one.ns == 20) for one in trace) == [
        Step(10, 0, "CANVASS"),
        Step(11, 1, "CANVASS"),
        Step(20, 0, "RequestVote", "term 1", 1, has_arrived=True),
        Step(62, 2, "AppendPosition", "at 62", 0, times=3),
        Step(70, 0, "CLOSED"),
        Step(80, 2, "AppendPosition", "at 80", 0),
    ]


def test_a_change_of_another_member_does_not_end_a_row_of_steady_messages() -> None:
    canvass = [
        sent(ns, 2, 0, "CanvassPosition", leadershipTermId=1, logLeadershipTermId=0, logPosition=64) for ns in (1, 3)
    ]
    steps = steps_of((one, True) for one in (canvass[0], state(2, 1, "CANVASS"), canvass[1]))
    last = Step(3, 2, "CanvassPosition", "term 1, log term 0 at 64", 0, has_arrived=True, times=2)
    assert steps == [Step(2, 1, "CANVASS"), last]
    assert label(last) == "CanvassPosition term 1, log term 0 at 64 (last of 2)"


@pytest.mark.parametrize(("vote", "words"), [(True, "granted"), (False, "refused")])
def test_a_vote_is_named_and_drawn_in_full(vote: bool, words: str) -> None:
    trace = [sent(2_500_000_000, 1, 0, "Vote", candidateTermId=7, logLeadershipTermId=6, logPosition=64, vote=vote)]
    (step,) = steps_of((one, True) for one in trace)
    assert step.is_refusal is not vote
    drawn = steps_text([step], 2, lambda one: in_run(one, 1_000_000_000))
    assert f" Vote term 7, {words} " in drawn
    assert drawn.splitlines()[1].startswith("  1.500000 s")


def test_lanes_are_as_wide_as_the_longest_message() -> None:
    step = Step(0, 0, "NewLeadershipTerm", "term 123456, log term 123455 at 1234567890", 1, has_arrived=True)
    assert label(step) in steps_text([step], 3, str)


def test_votes_stay_where_heartbeats_would_push_them_out_and_so_does_the_last_message() -> None:
    vote = Step(0, 1, "Vote", "term 1, granted", 0)
    beats = [Step(ns, 0, "CommitPosition", f"at {ns}", 1) for ns in range(1, 3 * STEPS_MAX)]
    shown = last_of([vote, *beats])
    assert shown[0] == vote
    assert shown[1:] == beats[-STEPS_MAX // 2 :]
    assert last_of(beats[:STEPS_MAX]) == beats[:STEPS_MAX]


EARLY = Finding(Promise.COMMITS_KEPT, Verdict.INVALID, "early", position=608)
LATE = Finding(Promise.ACKNOWLEDGED_NOT_LOST, Verdict.INVALID, "late", operation=150)
GENERAL = Finding(Promise.INVARIANTS, Verdict.INVALID, "late")
NOWHERE = Finding(Promise.STATES_AGREE, Verdict.INVALID, "no moment")
OPEN = Finding(Promise.RUN_CONVERGED, Verdict.UNKNOWN, "no phase")


def test_the_cause_comes_before_its_consequence_and_the_specific_before_the_general() -> None:
    moments = {EARLY: Moment(73, is_exact=False), LATE: Moment(815, is_exact=True), GENERAL: Moment(815, is_exact=True)}
    assert in_order([OPEN, NOWHERE, GENERAL, LATE, EARLY], moments) == [EARLY, LATE, GENERAL, NOWHERE, OPEN]


def test_members_know_what_their_present_process_said() -> None:
    trace = [
        entry(1, 0, TraceKind.PROCESS_START),
        entry(2, 0, TraceKind.ROLE, old="FOLLOWER", new="LEADER"),
        state(3, 0, "CLOSED", term=4),
        received(4, 0, "CommitPosition", logPosition=96),
        received(5, 0, "AppendPosition", logPosition=128),
        entry(6, 1, TraceKind.PROCESS_START),
        sent(7, 1, 0, "AppendPosition", logPosition=160),
        entry(8, 1, TraceKind.PROCESS_END),
    ]
    leader = Knowledge(0, runs=True, role="LEADER", state="CLOSED", term_id=4, leader_id=2, commit_position=96)
    ended = Knowledge(1, runs=False, role="FOLLOWER", append_position=160)
    assert knowledge_of(trace, 3) == [leader, ended, Knowledge(2)]
    again = knowledge_of([*trace, entry(9, 0, TraceKind.PROCESS_START)], 1 + 1)
    assert again[0] == Knowledge(0, runs=True, role="FOLLOWER")


def test_the_log_of_a_leader_reaches_as_far_as_it_sent_on_it() -> None:
    appended = replace(sent(3, 0, 0, "SessionMessageHeader"), to=None, record={"stream": "log", "position": 768})
    asked = replace(appended, ns=4, record={"stream": "consensus", "position": 4096})
    elected = entry(2, 0, TraceKind.ELECTION_STATE, state="LEADER_INIT", append_position=96)
    assert knowledge_of([elected], 1)[0].append_position == 96
    assert knowledge_of([elected, appended, asked], 1)[0].append_position == 768


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Member 0 is killed and runs again; member 1 is hit by a fault that nothing shows."""
    run = RunFolder(tmp_path / "run")
    run.create(Manifest("run-1", "simulated", 2, "test", 1))
    for member_id in range(2):
        run.member(member_id).path.mkdir()
    write(run.member(0).trace, record(10, "process-start", 0, "all"), record(60, "process-start", 0, "all"))
    write(run.member(1).trace, record(10, "process-start", 1, "consensus"), record(70, "process-start", 1, "archive"))
    role = record(20, "role", 0, "consensus", fields={"old": "FOLLOWER", "new": "LEADER"})
    write(run.member(0).path / "protocol.jsonl", role, record(21, "election_state", 0, "consensus", fields=CLOSED))
    write(run.member(1).path / "protocol.jsonl", record(22, "election_state", 1, "consensus", fields=CLOSED))
    run.add_fault(FaultRecord("kill", "member-0", 40, 41, inject_proof=Proof(True, "gone"), members=(0,)))
    run.add_fault(FaultRecord("kill", "member-1", 42, 43, inject_proof=Proof(False, "runs"), members=(1,)))
    return run


def write(path: Path, *records: dict[str, Json]) -> None:
    path.write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")


def record(ns: int, event: str, member: int, component: str, **more: Json) -> dict[str, Json]:
    return {"ts": ns, "epoch_ms": 0, "member": member, "component": component, "pid": 1, "event": event, **more}


CLOSED: dict[str, Json] = {"state": "CLOSED", "reason": "", "leadership_term_id": 0, "leader_member_id": 0}


@pytest.mark.parametrize(
    ("ns", "expected"),
    [
        (30, Knowledge(0, runs=True, role="LEADER", state="CLOSED", term_id=0, leader_id=0)),
        (50, Knowledge(0, runs=False, role="LEADER", state="CLOSED", term_id=0, leader_id=0)),
        (90, Knowledge(0, runs=True, role="FOLLOWER")),
    ],
)
def test_a_killed_member_does_not_run_and_its_next_process_knows_nothing(
    run: RunFolder, ns: int, expected: Knowledge
) -> None:
    broken = Failure("invariants", "broken", RuleBroken("commit-went-back", member=1, ns=ns))
    run.write_manifest(replace(run.read_manifest(), failures=(broken,)))
    explanation = explain(run, Finding(Promise.INVARIANTS, Verdict.INVALID, "broken"))
    other = Knowledge(1, runs=True, role="FOLLOWER", state="CLOSED", term_id=0, leader_id=0)
    assert explanation.members == [expected, other]


@pytest.mark.parametrize("ended", [0, 1])
def test_a_member_that_the_kernel_ended_does_not_run(run: RunFolder, ended: int) -> None:
    broken = Failure("invariants", "broken", RuleBroken("commit-went-back", member=0, ns=90))
    run.write_manifest(replace(run.read_manifest(), failures=(broken,)))
    with run.member(0).trace.open("a", encoding="utf-8") as trace:
        trace.write(json.dumps(record(65, "service-state", 0, "all")) + "\n")
    evidence = f"the kernel ended {ended} processes of member 0 for want of memory"
    run.add_fault(FaultRecord("memory-limit", "member-0", 50, 51, inject_proof=Proof(True, evidence), members=(0,)))
    explanation = explain(run, Finding(Promise.INVARIANTS, Verdict.INVALID, "broken"))
    assert explanation.members[0].runs == (not ended)


@pytest.mark.parametrize("is_traced", [True, False])
def test_a_moment_right_after_an_answer_has_no_steps_and_a_trace(run: RunFolder, *, is_traced: bool) -> None:
    broken = Failure("invariants", "broken", RuleBroken("commit-went-back", member=1, ns=90))
    run.write_manifest(replace(run.read_manifest(), failures=(broken,)))
    answered = Operation(1, 0, Function.READ, "x", None, 80, 89, Outcome.OK)
    run.history_file.write_text(answered.to_json() + "\n", encoding="utf-8")
    if not is_traced:
        for member_id in range(2):
            (run.member(member_id).path / "protocol.jsonl").unlink()
    text = as_text(run, explain(run, Finding(Promise.INVARIANTS, Verdict.INVALID, "broken")))
    assert ("messages are not shown without a protocol trace: runs with `--runtime" in text) is not is_traced
    assert ("no change of state and no message between members led there" in text) is is_traced
    assert ("no change of state led there" in text) is not is_traced


def message(ns: int, event: str, member: int, name: str, **fields: Json) -> dict[str, Json]:
    return record(ns, event, member, "all", message=name, **fields)


def elected(ns: int, member: int, state: str, **more: Json) -> dict[str, Json]:
    place: dict[str, Json] = {"leadership_term_id": 3, "leader_member_id": 0, "append_position": 96}
    return record(ns, "election_state", member, "all", state=state, reason="", **{**place, **more})


@pytest.fixture
def live(tmp_path: Path) -> RunFolder:
    """Member 0 leads, member 1 is killed and follows it again, and member 2 traces nothing before 90."""
    run = RunFolder(tmp_path / "live")
    run.create(Manifest("run-1", "process", 3, "test", 1))
    for member_id in range(3):
        run.member(member_id).path.mkdir()
    led = record(20, "role", 0, "all", old="CANDIDATE", new="LEADER")
    commit: dict[str, Json] = {"leadership_term_id": 3, "log_position": 128, "leader_member_id": 0}
    sent_commit = message(30, "send", 0, "CommitPosition", to=1, **commit)
    write(run.member(0).trace, record(10, "process-start", 0, "all"), led, elected(25, 0, "CLOSED"), sent_commit)
    report = message(45, "send", 1, "AppendPosition", to=0, leadership_term_id=3, log_position=160, flags=0)
    write(
        run.member(1).trace,
        record(10, "process-start", 1, "all"),
        elected(25, 1, "CLOSED"),
        message(40, "receive", 1, "CommitPosition", **commit),
        report,
        record(70, "process-start", 1, "all"),
        elected(75, 1, "CANVASS", leader_member_id=-1),
    )
    write(run.member(2).trace, record(90, "process-start", 2, "all"), elected(95, 2, "INIT"))
    run.add_fault(FaultRecord("kill", "member-1", 50, 60, inject_proof=Proof(True, "gone"), members=(1,)))
    return run


LEADS = Knowledge(0, runs=True, role="LEADER", state="CLOSED", term_id=3, leader_id=0, commit_position=128)
FOLLOWS = replace(LEADS, member_id=1, role="FOLLOWER", append_position=160)


@pytest.mark.parametrize(
    ("ns", "member"),
    [
        (48, FOLLOWS),
        (55, replace(FOLLOWS, runs=None)),
        (65, replace(FOLLOWS, runs=False)),
        (72, Knowledge(1, runs=True, role="FOLLOWER")),
        (80, Knowledge(1, runs=True, role="FOLLOWER", state="CANVASS", term_id=3, append_position=96)),
    ],
)
def test_without_a_protocol_trace_members_know_what_they_traced(live: RunFolder, ns: int, member: Knowledge) -> None:
    finding = Finding(Promise.COMMITS_KEPT, Verdict.INVALID, "broken", members=(0,), when_ns=(ns, ns))
    explanation = explain(live, finding)
    assert explanation.members == [LEADS, member, Knowledge(2)]
    assert [step.what for step in explanation.steps if step.to is not None] == []
    assert ("CANVASS" in [step.what for step in explanation.steps]) is (ns == 80)
    text = as_text(live, explanation)
    assert re.search(r"^0 +yes +LEADER +CLOSED +3 +0 +128 +-$", text, re.MULTILINE)
    assert re.search("^2( +-){7}$", text, re.MULTILINE)


def test_members_of_aeron_know_what_they_and_their_forwarders_saw(live: RunFolder) -> None:
    live.write_manifest(replace(live.read_manifest(), system="aeron:1.51.0"))
    term = record(27, "leadership_term", 1, "all", leadership_term_id=4, leader_member_id=0, source="log")
    state = record(25, "election_state", 1, "all", state="CLOSED", leadership_term_id=4, log_position=96)
    write(live.member(1).trace, record(10, "process-start", 1, "all"), state, term)
    seen = record(30, "receive", 1, "forwarder", message="CommitPosition", log_position=128)
    write(live.consensus_file, seen)
    explanation = explain(live, Finding(Promise.COMMITS_KEPT, Verdict.INVALID, "broken", when_ns=(48, 48)))
    known = Knowledge(1, runs=True, role="FOLLOWER", state="CLOSED", term_id=4, leader_id=0, commit_position=128)
    assert explanation.members[1] == known
    assert explanation.without_messages.endswith("members of aeron:1.51.0 write none")


def test_a_page_shows_no_member_as_down_of_which_nothing_is_known(live: RunFolder) -> None:
    """The first broken promise is that the leader has no votes."""
    page = page_of_run(live.path)
    account = page[page.index('<section id="how-it-broke">') :].partition("</section>")[0]
    rows = re.findall(r'<td class="n">member (\d)</td>\s*<td>(\w+|\N{EN DASH})</td>', account)
    assert rows == [("0", "yes"), ("1", "yes"), ("2", "\N{EN DASH}")]
    assert "messages are not shown without a protocol trace" in account
