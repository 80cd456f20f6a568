"""Votes and commit positions of members that trace no messages, from what forwarders saw of a good run."""

from itertools import count
from pathlib import Path

import pytest

from support.bad_runs import copy_of_good_run
from support.bad_runs.protocol import KILLED, RESTARTED, Line, first, having
from support.bad_runs.seen import seen_by_forwarders
from upheaval.checkers.evidence.protocol_events import MemberEvent, Place
from upheaval.checkers.promises import Promise
from upheaval.checkers.protocol.protocol import check_protocol
from upheaval.checkers.protocol.seen_protocol import SeenCommits
from upheaval.checkers.signature import LEADER, Rule, Signature
from upheaval.checkers.verdict import Broken, NotApplicable, Verdict
from upheaval.records import Json, RunFolder
from upheaval.report.elections import Outcome, elections_of


@pytest.mark.parametrize("scenario", [KILLED, RESTARTED, "all-killed-and-restarted"])
def test_a_good_run_is_valid(scenario: str, tmp_path: Path) -> None:
    copy_of_good_run(scenario, tmp_path)
    seen_by_forwarders(tmp_path)
    run = RunFolder(tmp_path)
    votes, commits = check_protocol(run, run.read_manifest())
    assert (votes.promise, votes.verdict) == (Promise.VOTES_KEPT, Verdict.VALID), votes
    assert (commits.promise, commits.verdict) == (Promise.COMMITS_KEPT, Verdict.VALID), commits
    assert "not checked" in votes.detail
    assert "not checked" in commits.detail


def test_a_leader_that_has_not_opened_its_term_names_that_of_its_log(tmp_path: Path) -> None:
    """So does Aeron 1.49.3; the first leader has none."""

    def change(lines: list[Line]) -> None:
        for term in (0, 1):
            announced = first(lines, event="send", message="NewLeadershipTerm", leadership_term_id=term)
            base = lines[announced]["term_base_log_position"]
            for at in having(lines, event="send", message="CommitPosition", leadership_term_id=term):
                if lines[at]["log_position"] <= base:
                    lines[at]["leadership_term_id"] -= 1

    copy_of_good_run(KILLED, tmp_path)
    seen_by_forwarders(tmp_path, change)
    run = RunFolder(tmp_path)
    assert '"CommitPosition","leadership_term_id":-1' in run.consensus_file.read_text()
    found = check_protocol(run, run.read_manifest())
    assert [each.verdict for each in found] == [Verdict.VALID] * 2, found


def test_without_forwarders_nothing_is_checked(tmp_path: Path) -> None:
    copy_of_good_run(KILLED, tmp_path)
    seen_by_forwarders(tmp_path)
    run = RunFolder(tmp_path)
    run.consensus_file.unlink()
    assert {type(each) for each in check_protocol(run, run.read_manifest())} == {NotApplicable}


def test_elections_are_those_that_members_would_have_traced(tmp_path: Path) -> None:
    copy_of_good_run(KILLED, tmp_path)
    traced = [(each.term_id, each.candidate_id, each.voters) for each in elections_of(RunFolder(tmp_path))]
    seen_by_forwarders(tmp_path)
    found = elections_of(RunFolder(tmp_path))
    assert [(each.term_id, each.candidate_id, each.voters) for each in found] == traced
    assert Outcome.LEADS in {each.outcome for each in found}


@pytest.mark.parametrize(
    ("is_committed", "reported"), [(True, 100), (False, 100), (True, 150)], ids=["committed", "not", "after another"]
)
def test_an_old_log_that_a_later_leader_commits_is_not_of_its_own_term(is_committed: bool, reported: int) -> None:
    """Between its term and the later one there was one that began further back, and came to nothing, or did not."""
    rules, number = SeenCommits(3), count(1)

    def tell(member: int, kind: str, **fields: Json) -> None:
        line = next(number)
        rules.on_event(MemberEvent(Place(member, line), line, kind, fields))

    for term, leader, base in ((1, 1, 100), (2, 0, 200)):
        led = {"leadership_term_id": term, "leader_member_id": leader}
        tell(leader, "send", message="NewLeadershipTerm", **led, term_base_log_position=base)
    between = {"leadership_term_id": 1, "log_position": reported}
    tell(1, "receive", message="AppendPosition", **between, follower_member_id=2, flags=0)
    tell(1, "send", message="CommitPosition", **between, leader_member_id=1)
    report = {"leadership_term_id": 2, "follower_member_id": 2, "log_position": 200, "flags": 0}
    tell(0, "receive", message="AppendPosition", **report)
    if is_committed:
        tell(0, "send", message="CommitPosition", leadership_term_id=2, leader_member_id=0, log_position=200)
    if is_committed and reported == 100:
        tell(2, "election_state", state="FOLLOWER_READY", leadership_term_id=0, log_position=200)
    else:
        with pytest.raises(Broken, match=r"term 1 begins at 100 .* below 200, which was committed in term 0"):
            tell(2, "election_state", state="FOLLOWER_READY", leadership_term_id=0, log_position=200)


def test_what_an_earlier_term_committed_may_be_lost_from_the_last_position_of_a_quorum_on() -> None:
    rules, number = SeenCommits(3), count(1)

    def tell(kind: str, **fields: Json) -> None:
        line = next(number)
        rules.on_event(MemberEvent(Place(0, line), line, kind, fields))

    led = {"leadership_term_id": 2, "leader_member_id": 0}
    tell("send", message="NewLeadershipTerm", **led, term_base_log_position=100)
    report = {"message": "AppendPosition", "flags": 0}
    tell("receive", **report, leadership_term_id=2, follower_member_id=2, log_position=200)
    tell("send", message="CommitPosition", **led, log_position=200)
    tell("receive", **report, leadership_term_id=1, follower_member_id=1, log_position=400)
    with pytest.raises(Broken) as broken:
        tell("send", message="CommitPosition", **led, log_position=300)
    finding = broken.value.finding(Promise.COMMITS_KEPT)
    assert finding.signature == Signature(Rule.EARLIER_TERM_COUNTED, role=LEADER)
    assert (finding.position, finding.since) == (300, 200)
