"""Messages of elections that reach a member which has a leader, or is one."""

from collections.abc import Callable

import pytest

from support.cluster_world import ClusterWorld, Member
from upheaval_node.cluster.election_states import Role
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.types import Position, TermId

FAR = 1 << 30


class Running:
    """Three members of one term without an election."""

    def __init__(self) -> None:
        self.world = ClusterWorld(3)
        self.world.start_all()
        self.leader = self.world.await_all()
        self.world.echo(self.world.client(), [b"a"] * 5)
        self.world.advance(200)
        self.follower, self.other = self.world.followers()
        self.term = self.leader.module.leadership_term_id

    def sent(self, member: Member, name: str) -> list[dict[str, int | str | bool | None]]:
        return [fields for fields in member.trace.named("send") if fields["message"] == name]

    def is_undisturbed(self) -> bool:
        modules = [member.module for member in self.world.members.values()]
        return all(module.election is None and module.leadership_term_id == self.term for module in modules)


def canvass(sender: Member, term: int, position: int) -> cm.CanvassPosition:
    return cm.CanvassPosition(term, position, term, sender.id, 1 << 16)


def test_a_leader_tells_a_member_that_canvasses_in_its_term_about_it() -> None:
    running = Running()
    leader, world = running.leader.module, running.world
    leader._messages.on_canvass_position(world.now, canvass(running.follower, running.term, 96))
    sent = running.sent(running.leader, "NewLeadershipTerm")[-1]
    entry = leader.recording_log.get_term_entry(running.term)
    publisher = leader._log.leader_log.publisher
    assert publisher is not None
    wanted = {
        "to": running.follower.id,
        "log_leadership_term_id": running.term,
        "next_leadership_term_id": -1,
        "next_term_base_log_position": -1,
        "next_log_position": -1,
        "leadership_term_id": running.term,
        "term_base_log_position": entry.term_base_log_position,
        "log_position": publisher.position,
        "leader_recording_id": leader._log.recording_id,
        "leader_member_id": running.leader.id,
        "log_session_id": publisher.session_id,
        "app_version": 1,
        "is_startup": False,
        "commit_position": leader.commit_position,
    }
    assert {key: sent[key] for key in wanted} == wanted
    assert leader.members[running.follower.id].log_position == 96
    assert running.is_undisturbed()


def test_a_leader_tells_a_member_of_an_earlier_term_about_the_next_one() -> None:
    running = Running()
    leader, world = running.leader.module, running.world
    leader._messages.on_canvass_position(world.now, canvass(running.follower, running.term - 1, 0))
    sent = running.sent(running.leader, "NewLeadershipTerm")[-1]
    entry = leader.recording_log.get_term_entry(running.term)
    assert sent["log_leadership_term_id"] == running.term - 1
    assert sent["next_leadership_term_id"] == running.term
    assert sent["next_term_base_log_position"] == entry.term_base_log_position
    assert sent["next_log_position"] == -1
    assert sent["is_startup"] is False


@pytest.mark.parametrize("term_ahead", [1, 5])
def test_a_leader_ignores_a_canvass_of_a_later_term_and_a_follower_any(term_ahead: int) -> None:
    running = Running()
    world = running.world
    before = len(running.sent(running.leader, "NewLeadershipTerm"))
    message = canvass(running.other, running.term + term_ahead, FAR)
    running.leader.module._messages.on_canvass_position(world.now, message)
    running.follower.module._messages.on_canvass_position(world.now, canvass(running.other, 0, 0))
    world.advance(100)
    assert len(running.sent(running.leader, "NewLeadershipTerm")) == before
    assert running.sent(running.follower, "NewLeadershipTerm") == []
    assert running.is_undisturbed()


def request(term: int) -> Callable[[Member, Member, ClusterWorld], None]:
    def deliver(to: Member, sender: Member, world: ClusterWorld) -> None:
        to.module._messages.on_request_vote(world.now, cm.RequestVote(term, FAR, term, sender.id, 1 << 16))

    return deliver


def announcement(term: int) -> Callable[[Member, Member, ClusterWorld], None]:
    def deliver(to: Member, sender: Member, world: ClusterWorld) -> None:
        message = cm.NewLeadershipTerm(
            log_leadership_term_id=term,
            next_leadership_term_id=-1,
            next_term_base_log_position=-1,
            next_log_position=-1,
            leadership_term_id=term,
            term_base_log_position=FAR,
            log_position=FAR,
            leader_member_id=sender.id,
            log_session_id=1,
            app_version=1,
            commit_position=FAR,
        )
        to.module._messages.on_new_leadership_term(world.now, message)

    return deliver


def commit(term: int) -> Callable[[Member, Member, ClusterWorld], None]:
    def deliver(to: Member, sender: Member, world: ClusterWorld) -> None:
        to.module._messages.on_commit_position(world.now, cm.CommitPosition(term, FAR, sender.id))

    return deliver


@pytest.mark.parametrize("message", [request, announcement, commit])
@pytest.mark.parametrize("is_leader", [True, False])
def test_a_later_term_begins_an_election_and_is_not_answered(
    message: Callable[[int], Callable[[Member, Member, ClusterWorld], None]], is_leader: bool
) -> None:
    running = Running()
    member = running.leader if is_leader else running.follower
    count = member.module.counters.election_count.get()
    message(running.term + 1)(member, running.other, running.world)
    assert member.module.election is not None
    assert member.module.role is Role.FOLLOWER
    assert member.module.counters.election_count.get() == count + 1
    assert all(vote["candidate_term_id"] != running.term + 1 for vote in running.sent(member, "Vote"))
    running.world.await_all()
    running.world.echo(running.world.client(), [b"b"] * 5)


@pytest.mark.parametrize("message", [request, announcement, commit])
@pytest.mark.parametrize("is_leader", [True, False])
@pytest.mark.parametrize("terms_back", [0, 1])
def test_the_same_or_an_earlier_term_of_another_member_is_ignored(
    message: Callable[[int], Callable[[Member, Member, ClusterWorld], None]], is_leader: bool, terms_back: int
) -> None:
    running = Running()
    member = running.leader if is_leader else running.follower
    position = member.module._leader.commit_position
    votes = len(running.sent(member, "Vote"))
    message(running.term - terms_back)(member, running.other, running.world)
    assert running.is_undisturbed()
    assert member.module._leader.commit_position == position
    assert len(running.sent(member, "Vote")) == votes


def test_a_vote_is_ignored_outside_an_election() -> None:
    running = Running()
    for member in running.world.members.values():
        member.module._messages.on_vote(running.world.now, cm.Vote(running.term + 9, 0, 0, member.id, 0, True))
    assert running.is_undisturbed()


@pytest.mark.parity("CM-09", "CM-10")
def test_a_follower_takes_commit_positions_from_its_leader_by_both_messages() -> None:
    running = Running()
    module = running.follower.module
    for deliver in (commit(running.term), announcement(running.term)):
        module._leader.heard_ns = 0
        module._leader.commit_position = 0
        deliver(running.follower, running.leader, running.world)
        assert module._leader.commit_position == FAR
        assert module._leader.heard_ns == running.world.ns
        module._leader.commit_position = module.commit_position


def test_positions_of_members_count_for_the_leader_only() -> None:
    running = Running()
    message = cm.AppendPosition(running.term, 96, running.other.id, 0)
    for member in (running.leader, running.follower):
        member.module.members[running.other.id].log_position = -1
        member.module._messages.on_append_position(running.world.now, message)
    assert running.leader.module.members[running.other.id].log_position == 96
    assert running.follower.module.members[running.other.id].log_position == -1
    late = cm.AppendPosition(running.term + 1, 960, running.other.id, 0)
    running.leader.module._messages.on_append_position(running.world.now, late)
    assert running.leader.module.members[running.other.id].log_position == 96


@pytest.mark.parametrize(
    ("base_before_end", "at_end", "terms_ahead"),
    [(0, True, 0), (32, True, 1), (0, False, 1)],
    ids=["without an entry", "with one", "nothing committed"],
)
def test_a_module_that_leaves_a_term_has_the_term_of_its_last_entry(
    base_before_end: int, at_end: bool, terms_ahead: int
) -> None:
    """Row E23: an action of the earlier term that its log still gets counts for module and services alike."""
    running = Running()
    module, now = running.follower.module, running.world.now
    end = module.commit_position
    base, joined = Position(end - base_before_end), TermId(running.term + 1)
    module.recording_log.append_term(module._log.recording_id, joined, base, 0)
    module._standing.enter_term(joined)
    module._roll_back(now, end if at_end else Position(0))
    assert module.leadership_term_id == running.term + terms_ahead
