"""What the traces of a whole run say of votes and commit positions, when some of it was lost or is still to come."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from upheaval.checkers.evidence.absence import check_absence
from upheaval.checkers.evidence.trace_facts import facts_of_members
from upheaval.checkers.promises import Promise
from upheaval.checkers.protocol.protocol import check_protocol
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import Json, Manifest, MemberFolder, RunFolder, TraceEvent

Line = dict[str, Json]

START: Line = {"event": "process-start", "component": "all"}
FOLLOWER: Line = {"event": "role", "component": "all", "role": "FOLLOWER"}
HEARD: Line = {
    "event": "receive",
    "message": "AppendPosition",
    "follower_member_id": 2,
    "leadership_term_id": 1,
    "log_position": 64,
    "flags": 0,
}
COMMIT: Line = {"message": "CommitPosition", "leader_member_id": 2, "leadership_term_id": 1}
UNASKED_VOTE: Line = {
    "event": "send",
    "message": "Vote",
    "vote": True,
    "candidate_term_id": 1,
    "candidate_member_id": 0,
    "log_leadership_term_id": 0,
    "log_position": 0,
}
WITHOUT_FIELD: Line = {"event": "send", "message": "RequestVote"}
"""It does not say in which term."""
ENTERED: Line = {
    "event": "leadership_term",
    "source": "election",
    "leader_member_id": 2,
    "log_position": 0,
    "term_base_log_position": 0,
}
FORGOTTEN: list[Line] = [{**ENTERED, "leadership_term_id": 2}, START, {**ENTERED, "leadership_term_id": 1}]


def run_of(path: Path, *told: list[Line], sealed: bool = True) -> RunFolder:
    """A run of three members, each of whose traces has a start and then the lines given here."""
    run = RunFolder(path)
    run.create(Manifest("run-1", "process", 3, "test", 0))
    if sealed:
        fields = json.loads(run.manifest_file.read_text())
        run.manifest_file.write_text(json.dumps({**fields, "sealed": "0"}))
    for member_id, lines in enumerate(told):
        folder = run.member(member_id)
        folder.path.mkdir()
        whole = [START, FOLLOWER, *lines]
        folder.trace.write_text("".join(json.dumps({"ts": ns, **line}) + "\n" for ns, line in enumerate(whole)))
    return run


def found(run: RunFolder, promise: Promise) -> Finding:
    return next(each for each in check_protocol(run, run.read_manifest()) if each.promise is promise)


@pytest.mark.parametrize(("sealed", "verdict"), [(True, Verdict.INVALID), (False, Verdict.UNKNOWN)])
def test_what_was_heard_of_a_run_that_goes_on_may_be_told_later(sealed: bool, verdict: Verdict, tmp_path: Path) -> None:
    finding = found(run_of(tmp_path, [HEARD], [], [], sealed=sealed), Promise.COMMITS_KEPT)
    assert finding.verdict is verdict
    assert "not have as reported" in finding.detail
    assert ("not sealed" in finding.detail) is not sealed


class Growing(MemberFolder):
    """A running member: it sends `later` after its trace was read."""

    later: Line

    def read_trace(self) -> Iterator[TraceEvent]:
        events = [*super().read_trace()]
        with self.trace.open("a") as trace:
            trace.write(json.dumps({"ts": 0, **self.later, "event": "send"}) + "\n")
        return iter(events)


class RunThatGoesOn(RunFolder):
    def __init__(self, path: Path, later: Line = HEARD) -> None:
        super().__init__(path)
        self._later = later

    def member(self, member_id: int) -> MemberFolder:
        folder = super().member(member_id)
        if member_id != 2:
            return folder
        growing = Growing(folder.path, 2)
        growing.later = self._later
        return growing


def test_what_was_sent_while_traces_were_read_is_read_again(tmp_path: Path) -> None:
    run = run_of(tmp_path, [HEARD], [], [], sealed=False)
    assert found(RunThatGoesOn(run.path), Promise.COMMITS_KEPT).verdict is Verdict.VALID
    again = run_of(tmp_path / "sealed", [HEARD], [], [])
    assert found(RunThatGoesOn(again.path), Promise.COMMITS_KEPT).verdict is Verdict.INVALID


@pytest.mark.parametrize(
    ("before", "later", "verdict"),
    [((100,), 64, Verdict.VALID), ((64, 100), 100, Verdict.UNKNOWN)],
    ids=["sent-back", "heard-back"],
)
def test_a_commit_position_may_have_gone_back_while_traces_were_read(
    before: tuple[int, ...], later: int, verdict: Verdict, tmp_path: Path
) -> None:
    sent, heard = {**COMMIT, "event": "send"}, {**COMMIT, "event": "receive"}
    leader = [{**sent, "log_position": position} for position in before]
    follower = [{**heard, "log_position": position} for position in (100, 64)]
    run = run_of(tmp_path, follower, [], leader, sealed=False)
    goes_on = RunThatGoesOn(run.path, {**sent, "log_position": later})
    assert found(goes_on, Promise.COMMITS_KEPT).verdict is verdict


def test_what_was_heard_may_be_among_the_lost_lines_of_its_sender(tmp_path: Path) -> None:
    run = run_of(tmp_path, [HEARD], [], [{**FOLLOWER, "lost_events_before": 2}])
    finding = found(run, Promise.COMMITS_KEPT)
    assert finding.verdict is Verdict.UNKNOWN
    assert "member-2/trace.jsonl:3" in finding.detail


def test_lost_lines_of_another_excuse_no_sender(tmp_path: Path) -> None:
    run = run_of(tmp_path, [HEARD], [{**FOLLOWER, "lost_events_before": 2}], [])
    assert found(run, Promise.COMMITS_KEPT).verdict is Verdict.INVALID


@pytest.mark.parametrize(("lost", "verdict"), [({}, Verdict.INVALID), ({"lost_events_before": 1}, Verdict.UNKNOWN)])
def test_the_request_for_a_vote_may_be_among_the_lost_lines(lost: Line, verdict: Verdict, tmp_path: Path) -> None:
    run = run_of(tmp_path, [], [{**FOLLOWER, **lost}, UNASKED_VOTE], [])
    assert found(run, Promise.VOTES_KEPT).verdict is verdict


def test_lost_lines_are_evidence_that_is_not_complete(tmp_path: Path) -> None:
    run = run_of(tmp_path, [], [{**FOLLOWER, "lost_events_before": 2}], [])
    traces = facts_of_members(run, 3)
    finding = check_absence(run, run.read_manifest(), traces)
    assert finding.verdict is Verdict.UNKNOWN
    assert "member-1/trace.jsonl:3 says that 2 events" in finding.detail


@pytest.mark.parametrize("first", [[WITHOUT_FIELD], FORGOTTEN])
def test_after_what_is_unknown_a_broken_promise_is_still_found(first: list[Line], tmp_path: Path) -> None:
    run = run_of(tmp_path, first, [UNASKED_VOTE], [])
    if first is FORGOTTEN:
        (run.member(0).path / "replaced-1").mkdir()
    finding = found(run, Promise.VOTES_KEPT)
    assert (finding.verdict, finding.members) == (Verdict.INVALID, (1, 0))


def test_a_line_without_a_field_does_not_hide_two_votes_in_a_term(tmp_path: Path) -> None:
    asked = {**UNASKED_VOTE, "event": "receive", "message": "RequestVote"}
    both = [line | {"candidate_member_id": candidate} for candidate in (0, 2) for line in (asked, UNASKED_VOTE)]
    finding = found(run_of(tmp_path, [], [WITHOUT_FIELD, *both], []), Promise.VOTES_KEPT)
    assert finding.verdict is Verdict.INVALID
    assert "voted for member 0" in finding.detail
