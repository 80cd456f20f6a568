"""The news of a standby's snapshot comes to every member, whatever is in its way."""

from dataclasses import replace

from support.cluster_world import ClusterWorld, KeepingService, Member
from support.standby_world import Standby
from upheaval_node.cluster.authentication import SessionProxy
from upheaval_node.cluster.module_state import ControlToggle, ModuleState
from upheaval_node.counters import CONTROL_TOGGLE, cluster_key
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.constants import STANDBY_RESPONSE_STREAM_ID
from upheaval_node.settings import profile_settings
from upheaval_node.standby.notice_states import LEGAL_MOVES, NoticeState
from upheaval_node.types import NEVER_NS, Now


class Challenger:
    """An authenticator that wants an answer from everyone."""

    def __init__(self) -> None:
        self._answers: dict[int, bytes] = {}

    def on_connect_request(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:
        self._answers.pop(session_id, None)

    def on_connected_session(self, now: Now, proxy: SessionProxy) -> None:
        proxy.challenge(b"who?")

    def on_challenge_response(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:
        self._answers[session_id] = encoded_credentials

    def on_challenged_session(self, now: Now, proxy: SessionProxy) -> None:
        answer = self._answers.get(proxy.session_id)
        if answer == b"me who?":
            proxy.authenticate(b"standby")
        elif answer is not None:
            proxy.reject()


class Answering:
    """Credentials that answer `Challenger`, rightly or wrongly."""

    def __init__(self, name: bytes = b"me") -> None:
        self.name = name
        self.asked: list[bytes] = []

    def encoded_credentials(self) -> bytes:
        return b""

    def on_challenge(self, encoded_challenge: bytes) -> bytes:
        self.asked.append(encoded_challenge)
        return self.name + b" " + encoded_challenge


def started(count: int = 3, **cluster: object) -> tuple[ClusterWorld, Member]:
    settings = profile_settings("test")
    changed = replace(settings, cluster=replace(settings.cluster, **cluster))  # type: ignore[arg-type]
    world = ClusterWorld(count, settings=changed, services=lambda: [KeepingService()])
    world.start_all()
    return world, world.await_all()


def following(world: ClusterWorld, leader: Member, credentials: Answering | None = None) -> Standby:
    standby = Standby(world, [KeepingService()], credentials=credentials)
    standby.follow(leader)
    world.until(lambda: standby.has_read(leader))
    return standby


def order(world: ClusterWorld, leader: Member, standby: Standby) -> int:
    """Have the standby take a snapshot; its position."""
    before = len(standby.recording_log.entries)
    toggle = leader.counters.find(CONTROL_TOGGLE, cluster_key(0))
    assert toggle is not None
    toggle.set(ControlToggle.STANDBY_SNAPSHOT)
    world.until(lambda: len(standby.recording_log.entries) == before + 2)
    return standby.recording_log.latest_snapshot_set()[0].log_position


def told(member: Member) -> list[int]:
    """Where the snapshots were taken that its recording log names."""
    return sorted(e.log_position for e in member.module.recording_log.entries if e.archive_endpoint)


def test_each_member_is_told_once_and_the_news_is_over() -> None:
    world, leader = started()
    standby = following(world, leader)
    assert standby.notices.next_deadline_ns() == NEVER_NS
    position = order(world, leader, standby)
    world.until(lambda: not standby.notices.is_busy)
    world.advance(5000)
    assert [told(member) for member in world.members.values()] == [[position, position]] * 3
    assert [member.module.counters.standby_snapshots.get() for member in world.members.values()] == [1, 1, 1]
    assert standby.notices.next_deadline_ns() == NEVER_NS


def test_a_member_that_is_away_is_told_when_it_is_back() -> None:
    world, leader = started()
    away = next(member.id for member in world.members.values() if member.is_follower)
    standby = following(world, leader)
    world.kill(away)
    position = order(world, leader, standby)
    world.advance(8000)
    assert standby.notices.is_busy
    assert [told(member) for member in world.members.values()] == [[position, position]] * 2
    world.start(away)
    world.until(lambda: not standby.notices.is_busy)
    world.until(lambda: told(world.members[away]) == [position, position])


def test_members_that_elect_are_told_when_that_is_over() -> None:
    world, leader = started()
    standby = following(world, leader)
    order(world, leader, standby)
    world.until(lambda: not standby.notices.is_busy)
    others = [member for member in world.members.values() if member.id != leader.id]
    toggle = leader.counters.find(CONTROL_TOGGLE, cluster_key(0))
    assert toggle is not None
    before = leader.module.commit_position
    toggle.set(ControlToggle.STANDBY_SNAPSHOT)
    world.until(lambda: all(each.module.commit_position > before for each in (leader, *others)))
    world.until(lambda: standby.has_read(leader))
    world.kill(leader.id)
    world.await_leader()
    position = max(entry.log_position for entry in standby.recording_log.entries if entry.is_valid_snapshot)
    world.until(lambda: all(position in told(each) for each in others))


def test_a_newer_snapshot_takes_the_place_of_one_that_is_still_to_be_told() -> None:
    world, leader = started()
    away = next(member.id for member in world.members.values() if member.is_follower)
    standby = following(world, leader)
    world.kill(away)
    order(world, leader, standby)
    newer = order(world, leader, standby)
    world.start(away)
    world.until(lambda: not standby.notices.is_busy)
    world.until(lambda: told(world.members[away]) == [newer, newer])


def test_members_that_want_no_snapshots_of_standbys_are_told_no_more() -> None:
    world, leader = started(accept_standby_snapshots=False)
    standby = following(world, leader)
    order(world, leader, standby)
    world.advance(3000)
    assert not standby.notices.is_busy
    assert len(standby.errors.texts) == 3
    assert all("ERROR: Not configured to accept StandbySnapshot" in text for text in standby.errors.texts)


def test_who_is_not_authorised_is_told_so_once() -> None:
    world, leader = started(authorisation="DENY_ALL")
    standby = following(world, leader)
    order(world, leader, standby)
    world.advance(3000)
    assert not standby.notices.is_busy
    assert len(standby.errors.texts) == 3
    assert all("AUTHENTICATION_REJECTED: Not authorised for Heartbeat" in text for text in standby.errors.texts)
    assert all(told(member) == [] for member in world.members.values())


def test_it_answers_challenges() -> None:
    world, leader = started(authenticator=f"{__name__}:{Challenger.__name__}")
    standby = following(world, leader, Answering())
    position = order(world, leader, standby)
    world.until(lambda: not standby.notices.is_busy)
    world.until(lambda: all(told(member) == [position, position] for member in world.members.values()))
    assert standby.errors.texts == []


def test_a_wrong_answer_ends_it_with_one_line_a_member() -> None:
    world, leader = started(authenticator=f"{__name__}:{Challenger.__name__}")
    standby = following(world, leader, Answering(b"you"))
    order(world, leader, standby)
    world.until(lambda: not standby.notices.is_busy)
    assert len(standby.errors.texts) == 3
    assert all("AUTHENTICATION_REJECTED" in text for text in standby.errors.texts)
    assert all(told(member) == [] for member in world.members.values())


def test_a_request_is_challenged_once_because_an_answer_takes_work() -> None:
    world, leader = started(1)
    credentials = Answering()
    standby = following(world, leader, credentials)
    toggle = leader.counters.find(CONTROL_TOGGLE, cluster_key(0))
    assert toggle is not None
    toggle.set(ControlToggle.SUSPEND)
    world.until(lambda: leader.module.state is ModuleState.SUSPENDED)
    standby.notices.notify(())
    (peer,) = standby.notices._peers
    world.until(lambda: peer.heartbeat_id != -1)
    for number in range(10):
        challenge = cm.Challenge(peer.heartbeat_id, cluster_session_id=-1, encoded_challenge=b"%d" % number)
        standby.notices._on_challenge(challenge)
    assert credentials.asked == [b"0"]


def test_what_nobody_asked_for_changes_nothing() -> None:
    """Anyone can reach the stream: answers to nothing, refusals of nothing, and bytes that are no message."""
    world, leader = started()
    standby = following(world, leader)
    party = MediaDriver(world.network, StaticResolver(), world.settings.media, world.random)
    world.parties.append(party)
    stream = party.add_publication("aeron:tcp?endpoint=s0:2", STANDBY_RESPONSE_STREAM_ID)
    world.until(lambda: stream.is_connected)
    for message in (
        cm.HeartbeatResponse(correlation_id=-1),
        cm.HeartbeatResponse(correlation_id=7),
        cm.Challenge(correlation_id=7, cluster_session_id=1, encoded_challenge=b"?"),
        cm.SessionEvent(correlation_id=-1, code=cm.EventCode.ERROR, detail="no"),
        cm.SessionEvent(correlation_id=7, code=cm.EventCode.AUTHENTICATION_REJECTED, detail="no"),
        cm.StandbySnapshot(correlation_id=7),
    ):
        assert stream.offer(cm.SCHEMA.encode(message)) > 0
    world.advance(100)
    assert standby.errors.texts == []
    assert stream.offer(b"\xff" * 7) > 0
    world.until(lambda: len(standby.errors.texts) == 1)
    position = order(world, leader, standby)
    world.until(lambda: all(told(member) == [position, position] for member in world.members.values()))
    assert len(standby.errors.texts) == 1


def test_every_state_can_be_left() -> None:
    assert set(LEGAL_MOVES) == set(NoticeState)
    assert all(moves and state not in moves for state, moves in LEGAL_MOVES.items())
