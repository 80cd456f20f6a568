"""The values of all fields of log entries and of announcements of a term, where none of ids and positions is 0."""

from dataclasses import replace

import pytest

from support.cluster_parts import TERM, PartsWorld
from support.cluster_world import EPOCH_MS, ClusterWorld, Member
from unit.cluster.test_service_requests import Asking, all_fired
from unit.cluster.test_sessions import ChallengeOnce, ClientSide
from unit.cluster.test_snapshots import take_snapshot, toggle
from upheaval_node.archive.reader import read_recordings
from upheaval_node.cluster.module_state import ControlToggle, ModuleState
from upheaval_node.cluster.pending_messages import service_of
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import Message, with_values
from upheaval_node.types import MS

APP_VERSION = 1 << 16 | 7


class Third:
    """Three members in their third term; its leader has recorded something else before the log."""

    def __init__(self) -> None:
        world = self.world = ClusterWorld(3, services=lambda: [Asking()])
        cluster = replace(world.settings.cluster, app_version=APP_VERSION)
        world.settings = replace(world.settings, cluster=cluster)
        world.start_all()
        for member in world.members.values():
            record_something(world, member)
        while True:
            leader = world.await_all()
            if leader.module.leadership_term_id >= 2 and leader.id != 0:
                break
            world.kill(leader.id)
            self.first_ns = world.ns
            world.await_all()
            world.start(leader.id)
        self.leader = leader
        self.term = leader.module.leadership_term_id
        self.base = leader.module.recording_log.get_term_entry(self.term).term_base_log_position
        self.recording_id = leader.module._log.recording_id
        assert min(self.base, self.recording_id) > 0

    def entries(self) -> list[tuple[int, Message]]:
        """Those of the third term in the leader's recording, with the positions at which they end."""
        (log,) = [each for each in read_recordings(self.leader.storage) if each.recording_id == self.recording_id]
        return [(each.end_position, cm.SCHEMA.decode(each.payload)) for each in log.messages(self.base)]

    def session_id_of_log(self) -> int:
        publisher = self.leader.module._log.leader_log.publisher
        assert publisher is not None
        return publisher.session_id


def record_something(world: ClusterWorld, member: Member) -> None:
    """In the member's archive, under the first recording id."""
    archive = member.module._context.archive
    world.until(lambda: archive.is_connected, step_ms=1)
    member.driver.add_publication("aeron:ipc", 900)
    archive.start_recording("aeron:ipc", 900)


def without_time(entry: Message) -> Message:
    return with_values(entry, timestamp=0)


def test_entries_of_the_log_say_what_was_done_when_and_in_which_term() -> None:
    third = Third()
    world, leader, term = third.world, third.leader, third.term
    client = world.client()
    session = next(iter(leader.module._state.sessions.open.values()))
    world.echo(client, [b"t 9 50", b"o x", b"o " + bytes(3000).replace(b"\0", b"y")])
    world.until(lambda: all_fired(world, 9))
    toggle(leader, ControlToggle.STANDBY_SNAPSHOT)
    world.advance(100)
    take_snapshot(world)
    toggle(leader, ControlToggle.SUSPEND)
    world.until(lambda: leader.module.state is ModuleState.SUSPENDED)
    found = leader.module.counters.control_toggle
    found.set(ControlToggle.RESUME)
    world.until(lambda: leader.module.state is ModuleState.ACTIVE)
    client.session.close()
    world.until(lambda: not leader.module._state.sessions.sessions)

    entries = third.entries()
    messages = [entry for _, entry in entries if isinstance(entry, cm.SessionMessageHeader)]
    others = [(end, entry) for end, entry in entries if not isinstance(entry, cm.SessionMessageHeader)]
    ends = {type(entry): end for end, entry in others}
    actions = [end for end, entry in others if isinstance(entry, cm.ClusterActionRequest)]
    action = cm.ClusterAction
    expected = [
        cm.NewLeadershipTermEvent(
            leadership_term_id=term,
            log_position=ends[cm.NewLeadershipTermEvent],
            timestamp=0,
            term_base_log_position=third.base,
            leader_member_id=leader.id,
            log_session_id=third.session_id_of_log(),
            time_unit=cm.ClusterTimeUnit.MILLIS,
            app_version=APP_VERSION,
        ),
        cm.SessionOpenEvent(
            leadership_term_id=term,
            correlation_id=session.correlation_id,
            cluster_session_id=session.id,
            timestamp=0,
            response_stream_id=session.response_stream_id,
            response_channel=session.response_channel,
            encoded_principal=b"",
        ),
        cm.TimerEvent(leadership_term_id=term, correlation_id=9, timestamp=0),
        cm.ClusterActionRequest(term, actions[0], 0, action.SNAPSHOT, 1),
        cm.ClusterActionRequest(term, actions[1], 0, action.SNAPSHOT, 0),
        cm.ClusterActionRequest(term, actions[2], 0, action.SUSPEND, 0),
        cm.ClusterActionRequest(term, actions[3], 0, action.RESUME, 0),
        cm.SessionCloseEvent(term, session.id, 0, cm.CloseReason.CLIENT_ACTION),
    ]
    assert [without_time(entry) for _, entry in others] == expected
    assert [message.leadership_term_id for message in messages] == [term] * 5
    of_client = [message.cluster_session_id for message in messages if message.cluster_session_id > 0]
    assert of_client == [session.id] * 3
    assert [service_of(each.cluster_session_id) for each in messages if each.cluster_session_id < 0] == [0, 0]
    times = [int(entry.timestamp) for _, entry in entries]
    assert times == sorted(times)
    assert EPOCH_MS + third.first_ns // MS <= times[0]
    assert times[-1] <= EPOCH_MS + world.ns // MS


@pytest.mark.parametrize("reason", list(cm.CloseReason))
def test_entries_of_a_session_have_what_its_client_asked(reason: cm.CloseReason) -> None:
    world = PartsWorld(authenticator=ChallengeOnce())
    client, sessions = ClientSide(world), world.sessions
    world.ns += 3_000 * MS
    client.connect(correlation_id=41)
    (challenge,) = client.events()
    assert isinstance(challenge, cm.Challenge)
    sessions.on_challenge_response(world.now, cm.ChallengeResponse(42, challenge.cluster_session_id, b"it is me"))
    world.ns += 70 * MS
    opened_at = world.context.cluster_time(world.now)
    sessions.process_pending(world.now)
    (session,) = sessions.open.values()
    world.ns += 70 * MS
    closed_at = world.context.cluster_time(world.now)
    match reason:
        case cm.CloseReason.CLIENT_ACTION:
            sessions.on_close_request(world.now, cm.SessionCloseRequest(TERM, session.id))
        case cm.CloseReason.SERVICE_ACTION:
            sessions.close_by_service(world.now, session.id)
        case _:
            sessions.on_image_lost(client.image)
            session.ingress_image = client.image
            sessions._mark_closing(session, reason)
            sessions.check(world.now)
    world.settle()
    assert [entry for entry, _ in world.read_log()] == [
        cm.SessionOpenEvent(TERM, 42, session.id, opened_at, 102, client.channel, b"me"),
        cm.SessionCloseEvent(TERM, session.id, closed_at, reason),
    ]


def announcements(member: Member) -> list[dict[str, int | str | bool | None]]:
    return [each for each in member.trace.named("send") if each["message"] == "NewLeadershipTerm"]


def test_a_leader_announces_its_term_with_all_that_there_is_to_know() -> None:
    third = Third()
    leader, term = third.leader, third.term
    before = term - 1
    told = announcements(leader)
    assert {each["to"] for each in told} == {each.id for each in third.world.followers()}
    for each in told:
        timestamp = each["timestamp"]
        assert isinstance(timestamp, int)
        assert EPOCH_MS + third.first_ns // MS <= timestamp <= EPOCH_MS + third.world.ns // MS
    wanted = {
        "message": "NewLeadershipTerm",
        "to": told[0]["to"],
        "log_leadership_term_id": before,
        "next_leadership_term_id": term,
        "next_term_base_log_position": third.base,
        "next_log_position": -1,
        "leadership_term_id": term,
        "term_base_log_position": third.base,
        "log_position": third.base,
        "leader_recording_id": third.recording_id,
        "timestamp": told[0]["timestamp"],
        "leader_member_id": leader.id,
        "log_session_id": third.session_id_of_log(),
        "app_version": APP_VERSION,
        "is_startup": False,
        "commit_position": third.base,
    }
    assert told[0] == wanted
    ready = next(each for each in told if each["log_leadership_term_id"] == term)
    changed = {name: ready[name] for name in ("to", "timestamp", "commit_position")}
    assert ready == {**wanted, "log_leadership_term_id": term, **changed}


def test_positions_are_told_with_their_sender_and_term() -> None:
    third = Third()
    leader, world = third.leader, third.world
    for follower in world.followers():
        told = [each for each in follower.trace.named("send") if each["to"] == leader.id]
        reports = [each for each in told if each["message"] == "AppendPosition"]
        assert {(each["leadership_term_id"], each["follower_member_id"]) for each in reports} == {
            (third.term, follower.id)
        }
        # The first is of its election, the others follow the log.
        assert (reports[0]["log_position"], reports[0]["flags"]) == (third.base, 0)
        recorded = follower.module._log.recording.position
        assert recorded is not None
        assert recorded > third.base
        assert reports[-1]["log_position"] == recorded
    began = max(at for at, (_, name, _) in enumerate(leader.trace.events) if name == "election_state")
    commits = [(at, each) for at, (_, _, each) in enumerate(leader.trace.events) if is_commit(each)]
    assert {(each["leadership_term_id"], each["leader_member_id"]) for _, each in commits} == {(third.term, leader.id)}
    in_election = [each["log_position"] for at, each in commits if at < began]
    assert in_election[0] == third.base
    assert commits[-1][1]["log_position"] == leader.module.commit_position > third.base


def is_commit(fields: dict[str, int | str | bool | None]) -> bool:
    return fields.get("message") == "CommitPosition" and "to" in fields


def test_a_running_leader_tells_a_member_of_the_first_term_about_the_second_one() -> None:
    third = Third()
    leader, world = third.leader, third.world
    follower = world.followers()[0]
    world.echo(world.client(), [b"o x"])
    world.advance(200)
    leader.module._messages.on_canvass_position(world.now, cm.CanvassPosition(0, 96, 0, follower.id, 1 << 16))
    log = leader.module.recording_log
    publisher = leader.module._log.leader_log.publisher
    assert publisher is not None
    assert announcements(leader)[-1] == {
        "message": "NewLeadershipTerm",
        "to": follower.id,
        "log_leadership_term_id": 0,
        "next_leadership_term_id": 1,
        "next_term_base_log_position": log.get_term_entry(1).term_base_log_position,
        "next_log_position": log.get_term_entry(1).log_position,
        "leadership_term_id": third.term,
        "term_base_log_position": third.base,
        "log_position": publisher.position,
        "leader_recording_id": third.recording_id,
        "timestamp": EPOCH_MS + world.ns // MS,
        "leader_member_id": leader.id,
        "log_session_id": publisher.session_id,
        "app_version": APP_VERSION,
        "is_startup": False,
        "commit_position": leader.module.commit_position,
    }
    assert leader.module.commit_position > third.base
