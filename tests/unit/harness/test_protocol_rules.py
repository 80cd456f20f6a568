"""The rules over events of members: what no damaged run of a scenario shows, and what they must let pass."""

from collections.abc import Callable
from itertools import count

import pytest

from upheaval.checkers.evidence.protocol_events import MemberEvent, Place
from upheaval.checkers.protocol.ballots import BallotRules
from upheaval.checkers.protocol.commits import CommitRules
from upheaval.checkers.verdict import Broken, Verdict
from upheaval.records import Json

SILENCE_NS = 1000


class Story:
    """Tells rules what members did, one line after the other, and asks them for their word at the end."""

    def __init__(self, *rules: BallotRules | CommitRules) -> None:
        self._rules = rules or (BallotRules(3), CommitRules(3, SILENCE_NS))
        self._lines = count(1)
        self.ns = 0

    def tell(self, member: int, kind: str, **fields: Json) -> None:
        for rules in self._rules:
            rules.on_event(MemberEvent(Place(member, next(self._lines)), self.ns, kind, fields))

    def end(self) -> None:
        for rules in self._rules:
            for _, broken in rules.at_end():
                raise broken

    def start(self, member: int) -> None:
        self.tell(member, "process-start", component="consensus")

    def state(self, member: int, state: str, term: int, *, log_term: int = 0, position: int = 0, base: int = 0) -> None:
        self.tell(
            member,
            "election_state",
            state=state,
            leadership_term_id=term,
            candidate_term_id=term,
            log_leadership_term_id=log_term,
            log_position=position,
            append_position=base,
        )

    def stand(self, candidate: int, term: int) -> None:
        for state in ("INIT", "CANVASS", "NOMINATE", "CANDIDATE_BALLOT"):
            self.state(candidate, state, term)
        self.tell(candidate, "role", old="FOLLOWER", new="CANDIDATE")

    def ask(self, candidate: int, voter: int, term: int) -> None:
        asked: dict[str, Json] = {
            "message": "RequestVote",
            "candidate_term_id": term,
            "candidate_member_id": candidate,
            "log_leadership_term_id": 0,
            "log_position": 0,
        }
        self.tell(candidate, "send", **asked)
        self.tell(voter, "receive", **asked)

    def vote(self, voter: int, candidate: int, term: int, *, granted: bool = True) -> None:
        given: dict[str, Json] = {
            "message": "Vote",
            "candidate_term_id": term,
            "candidate_member_id": candidate,
            "follower_member_id": voter,
            "log_leadership_term_id": 0,
            "log_position": 0,
            "vote": granted,
        }
        self.tell(voter, "send", **given)
        self.tell(candidate, "receive", **given)

    def win(self, leader: int, voter: int, term: int, *, position: int = 0, base: int = 0) -> None:
        self.ask(leader, voter, term)
        self.vote(voter, leader, term)
        self.state(leader, "LEADER_LOG_REPLICATION", term, position=position, base=base)

    def open_term(self, leader: int, term: int) -> None:
        for state in ("LEADER_REPLAY", "LEADER_INIT", "LEADER_READY", "CLOSED"):
            self.state(leader, state, term)

    def report(self, follower: int, leader: int, term: int, position: int, flags: int = 0) -> None:
        fields: dict[str, Json] = {
            "message": "AppendPosition",
            "leadership_term_id": term,
            "log_position": position,
            "follower_member_id": follower,
            "flags": flags,
        }
        self.tell(follower, "send", **fields)
        self.tell(leader, "receive", **fields)

    def canvass(self, follower: int, leader: int, log_term: int, position: int) -> None:
        fields: dict[str, Json] = {
            "message": "CanvassPosition",
            "leadership_term_id": log_term,
            "log_leadership_term_id": log_term,
            "log_position": position,
            "follower_member_id": follower,
        }
        self.tell(follower, "send", **fields)
        self.tell(leader, "receive", **fields)

    def commit(self, leader: int, term: int, position: int, *, heard_by: int | None = None) -> None:
        fields: dict[str, Json] = {
            "message": "CommitPosition",
            "leadership_term_id": term,
            "log_position": position,
            "leader_member_id": leader,
        }
        self.tell(leader, "send", **fields)
        if heard_by is not None:
            self.tell(heard_by, "receive", **fields)

    def enter(self, member: int, leader: int, term: int, position: int = 0) -> None:
        self.tell(
            member,
            "leadership_term",
            leadership_term_id=term,
            leader_member_id=leader,
            log_position=position,
            term_base_log_position=position,
            source="election",
        )


def refused(act: Callable[[], None]) -> Broken:
    with pytest.raises(Broken) as caught:
        act()
    return caught.value


def led(*rules: BallotRules | CommitRules) -> Story:
    """Member 0 leads term 1 by the vote of member 1, which reported 100 of it and heard that it is committed."""
    story = Story(*rules)
    story.stand(0, 1)
    story.win(0, 1, 1)
    story.tell(0, "role", old="CANDIDATE", new="LEADER")
    story.open_term(0, 1)
    story.enter(0, 0, 1)
    story.report(1, 0, 1, 100)
    story.commit(0, 1, 100, heard_by=1)
    return story


def test_a_term_with_a_vote_a_report_and_a_commit_is_kept() -> None:
    led().end()


# --- votes ---


def test_who_led_a_term_before_its_restart_does_not_lead_it_after() -> None:
    story = led(BallotRules(3))
    story.start(0)
    assert "no member elected" in str(refused(lambda: story.commit(0, 1, 100)))


def test_votes_that_were_given_before_a_restart_do_not_count() -> None:
    story = Story(BallotRules(3))
    story.ask(0, 1, 1)
    story.vote(1, 0, 1)
    story.start(0)
    assert "are needed" in str(refused(lambda: story.state(0, "LEADER_LOG_REPLICATION", 1)))


def test_a_refusal_ends_a_candidacy() -> None:
    story = Story(BallotRules(3))
    story.ask(0, 2, 1)
    story.vote(2, 0, 1, granted=False)
    assert "for which member 2 had refused its vote" in str(refused(lambda: story.win(0, 1, 1)))


def test_a_refusal_of_a_voter_that_is_no_member_is_ignored() -> None:
    story = led(BallotRules(3))
    story.enter(1, 0, 4)
    story.stand(1, 5)
    refusal: dict[str, Json] = {"candidate_term_id": 5, "candidate_member_id": 1, "follower_member_id": 99}
    story.tell(1, "receive", message="Vote", vote=False, **refusal)
    story.win(1, 2, 5)


def test_a_refusal_counts_neither_for_another_term_nor_by_the_leader_that_left() -> None:
    story = led(BallotRules(3))
    story.ask(1, 2, 2)
    story.vote(2, 1, 2, granted=False)
    story.enter(1, 0, 4)
    story.stand(1, 5)
    story.ask(1, 0, 5)
    story.vote(0, 1, 5, granted=False)
    story.win(1, 2, 5)


def test_a_leader_enters_no_term_that_it_did_not_win() -> None:
    story = Story(BallotRules(3))
    assert "no member elected" in str(refused(lambda: story.enter(0, 0, 1)))


def test_no_term_before_that_of_a_vote_is_entered() -> None:
    story = Story(BallotRules(3))
    story.ask(0, 1, 2)
    story.vote(1, 0, 2)
    assert "voted in term 2" in str(refused(lambda: story.enter(1, 2, 1)))


def test_who_catches_up_names_the_term_of_the_log_that_it_reads() -> None:
    story = Story(BallotRules(3))
    story.ask(0, 1, 2)
    story.vote(1, 0, 2)
    story.report(1, 0, 1, 100, flags=1)


@pytest.mark.parametrize("restarts", [True, False])
def test_a_member_that_lost_its_files_may_forget_a_vote_only_over_a_start(restarts: bool) -> None:
    story = Story(BallotRules(3, forgetful=[1]))
    story.ask(0, 1, 1)
    story.vote(1, 0, 1)
    if restarts:
        story.start(1)
    story.ask(2, 1, 1)
    wanted = Verdict.UNKNOWN if restarts else Verdict.INVALID
    assert refused(lambda: story.vote(1, 2, 1)).finding(BallotRules.promise).verdict is wanted


# --- commit positions ---


def test_part_of_the_old_log_is_committed_by_who_reports_it_under_its_own_term() -> None:
    story = Story(CommitRules(3, SILENCE_NS))
    story.win(0, 1, 1, base=100)
    story.report(1, 0, 0, 100)
    story.commit(0, 1, 64)
    assert "are needed" in str(refused(lambda: story.commit(0, 1, 100)))


def test_by_aerons_rule_copies_commit_the_old_log_and_nothing_after_it() -> None:
    story = Story(CommitRules(3, SILENCE_NS, copies_commit=True))
    story.win(0, 1, 1, base=100)
    story.report(1, 0, 0, 100)
    story.commit(0, 1, 100)
    story.open_term(0, 1)
    story.report(1, 0, 0, 200)
    assert "are needed" in str(refused(lambda: story.commit(0, 1, 200)))


def test_the_old_log_is_committed_by_who_names_the_new_term() -> None:
    story = Story(CommitRules(3, SILENCE_NS))
    story.win(0, 1, 1, base=100)
    story.report(1, 0, 1, 100)
    story.commit(0, 1, 100)


def test_what_was_committed_before_needs_no_new_term() -> None:
    story = Story(CommitRules(3, SILENCE_NS))
    story.win(0, 1, 1, position=100, base=100)
    story.report(1, 0, 0, 100)
    story.commit(0, 1, 100)


def test_a_report_under_an_earlier_term_counts_for_nothing_in_an_open_one() -> None:
    story = led(CommitRules(3, SILENCE_NS))
    story.report(2, 0, 0, 200)
    assert "are needed" in str(refused(lambda: story.commit(0, 1, 200)))


def test_a_report_before_the_canvass_counts_for_nothing() -> None:
    story = Story(CommitRules(3, SILENCE_NS))
    story.report(1, 0, 1, 100)
    story.state(0, "CANVASS", 0)
    story.win(0, 1, 1)
    story.open_term(0, 1)
    assert "are needed" in str(refused(lambda: story.commit(0, 1, 100)))


def test_who_catches_up_reports_this_log_under_an_earlier_term() -> None:
    story = led(CommitRules(3, SILENCE_NS))
    story.report(2, 0, 0, 200, flags=1)
    story.commit(0, 1, 200)


@pytest.mark.parametrize("silent", [True, False])
def test_a_commit_position_goes_back_when_followers_are_silent(silent: bool) -> None:
    story = led(CommitRules(3, SILENCE_NS))
    story.ns = SILENCE_NS if silent else SILENCE_NS - 1
    if silent:
        story.commit(0, 1, 0, heard_by=1)
        story.end()
    else:
        assert "went back from 100" in str(refused(lambda: story.commit(0, 1, 0)))


@pytest.mark.parametrize(("log_term", "position"), [(0, 100), (1, 64)])
def test_a_commit_position_goes_back_when_a_follower_has_less(log_term: int, position: int) -> None:
    story = led(CommitRules(3, SILENCE_NS))
    story.canvass(1, 0, log_term, position)
    story.commit(0, 1, 0, heard_by=1)
    story.end()


def test_a_canvass_is_no_sign_of_life_to_a_leader() -> None:
    story = led(CommitRules(3, SILENCE_NS))
    story.ns = SILENCE_NS
    story.canvass(1, 0, 1, 100)
    story.commit(0, 1, 0)


def test_an_old_log_may_be_committed_that_its_leader_has_not_read() -> None:
    story = Story(CommitRules(3, SILENCE_NS))
    story.win(0, 1, 1, base=100)
    story.report(1, 0, 1, 100)
    story.commit(0, 1, 100)
    story.state(0, "INIT", 1, position=0)


def test_a_member_that_starts_again_may_have_read_less() -> None:
    story = led(CommitRules(3, SILENCE_NS))
    story.start(0)
    story.state(0, "INIT", 1, position=0)


@pytest.mark.parametrize("is_forgetful", [True, False])
@pytest.mark.parametrize("is_told_late", [True, False])
def test_no_term_begins_below_what_an_earlier_one_committed(is_told_late: bool, is_forgetful: bool) -> None:
    """Traces are read one after the other: the later term may come first."""
    story = Story(CommitRules(3, SILENCE_NS, is_forgetful))

    def earlier() -> None:
        story.win(0, 1, 1)
        story.open_term(0, 1)
        story.report(1, 0, 1, 100)
        story.commit(0, 1, 100)

    def later() -> None:
        story.win(2, 1, 2, base=64)

    first, second = (later, earlier) if is_told_late else (earlier, later)
    first()
    broken = refused(second)
    assert "term 2 begins at 64" in str(broken)
    wanted = Verdict.UNKNOWN if is_forgetful else Verdict.INVALID
    assert broken.finding(CommitRules.promise).verdict is wanted
