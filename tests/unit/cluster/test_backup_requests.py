"""What a member answers to backups and standbys: whom, when, with what, and how many at a time."""

from dataclasses import replace

import pytest

from support.asking_party import STREAM, VERSION, Party, PrincipalOnly
from support.cluster_world import ClusterWorld, KeepingService, Member
from unit.cluster.test_snapshots import snapshots, take_snapshot, toggle
from upheaval_node.cluster.backup_sessions import MAX_WAITING, MAX_WAITING_OF_PEER, BackupSessions
from upheaval_node.cluster.module_state import ControlToggle, ModuleState
from upheaval_node.errors import NetworkError
from upheaval_node.protocol import cluster_messages as cm, codec
from upheaval_node.protocol.message import with_values
from upheaval_node.settings import MemberSettings, profile_settings
from upheaval_node.types import NULL_VALUE


def configured(**cluster: object) -> MemberSettings:
    settings = profile_settings("test")
    return replace(settings, cluster=replace(settings.cluster, **cluster))  # type: ignore[arg-type]


def started(count: int = 3, settings: MemberSettings | None = None) -> tuple[ClusterWorld, Member, Party]:
    world = ClusterWorld(count, settings=settings, services=lambda: [KeepingService()])
    world.start_all()
    leader = world.await_all()
    return world, leader, Party(world)


def waiting(member: Member) -> int:
    return len(member.module._backups._waiting)


def told(message: codec.Message) -> tuple[cm.EventCode | int, str]:
    assert isinstance(message, cm.SessionEvent), message
    return message.code, message.detail


# --- queries ---


@pytest.mark.parametrize("is_leader", [True, False])
def test_leader_and_followers_tell_a_backup_where_everything_is(is_leader: bool) -> None:
    world, leader, backup = started()
    world.echo(world.client(), [b"a", b"b"])
    take_snapshot(world)
    member = leader if is_leader else world.followers()[0]
    log = member.module.recording_log
    term = log.find_last_term()
    assert term is not None
    response = backup.ask(member, backup.query(41))
    assert isinstance(response, cm.BackupResponse)
    assert response == cm.BackupResponse(
        correlation_id=41,
        log_recording_id=term.recording_id,
        log_leadership_term_id=term.leadership_term_id,
        log_term_base_log_position=term.term_base_log_position,
        last_leadership_term_id=term.leadership_term_id,
        last_term_base_log_position=term.term_base_log_position,
        commit_position_counter_id=member.module.counters.commit_position.id,
        leader_member_id=leader.id,
        member_id=member.id,
        snapshots=response.snapshots,
        cluster_members="|".join(f"{i},m{i}:1,m{i}:2,m{i}:3,m{i}:4,m{i}:5" for i in range(3)),
    )
    assert [each.service_id for each in response.snapshots] == [0, -1]
    for told_of, entry in zip(response.snapshots, snapshots(member), strict=True):
        assert told_of == cm.BackupResponseSnapshot(
            recording_id=entry.recording_id,
            leadership_term_id=entry.leadership_term_id,
            term_base_log_position=entry.term_base_log_position,
            log_position=entry.log_position,
            timestamp=entry.timestamp,
            service_id=entry.service_id,
        )
    assert waiting(member) == 0


@pytest.mark.parity("BK-20")
def test_a_query_with_a_position_gets_the_newest_snapshot_at_or_before_it_or_else_the_lowest() -> None:
    world, leader, backup = started(1)
    client = world.client()
    for _ in range(4):
        world.echo(client, [b"a" * 100])
        take_snapshot(world)
    positions = sorted({entry.log_position for entry in snapshots(leader)})
    assert len(positions) == 4
    first, second, third, fourth = positions
    for asked, wanted in (
        (fourth + 1, fourth),
        (fourth, fourth),
        (fourth - 1, third),
        (second + 1, second),
        (first - 1, first),
        (0, first),
        (NULL_VALUE, fourth),
        (codec.NULL_INT64, fourth),
    ):
        response = backup.ask(leader, backup.query(asked & 0xFF, position=asked))
        assert isinstance(response, cm.BackupResponse)
        assert {each.log_position for each in response.snapshots} == {wanted}, asked


def test_without_a_snapshot_the_answer_has_none() -> None:
    _, leader, backup = started(1)
    response = backup.ask(leader, backup.query())
    assert isinstance(response, cm.BackupResponse)
    assert response.snapshots == ()


def test_a_heartbeat_is_answered_whatever_its_version() -> None:
    world, leader, backup = started()
    for member in (leader, *world.followers()):
        assert backup.ask(member, backup.heartbeat(60 + member.id)) == cm.HeartbeatResponse(60 + member.id)


@pytest.mark.parametrize("version", [1 << 16, 2 << 16 | 3 << 8])
def test_another_major_version_is_refused_with_both_versions(version: int) -> None:
    _, leader, backup = started(1)
    text = f"invalid client version {version >> 16}.{version >> 8 & 0xFF}.0, cluster=0.3.0"
    assert told(backup.ask(leader, backup.query(version=version))) == (cm.EventCode.ERROR, text)
    assert told(backup.ask(leader, backup.notice(version=version))) == (cm.EventCode.ERROR, text)
    assert waiting(leader) == 0


# --- when ---


def test_nothing_is_taken_in_an_election() -> None:
    world, leader, backup = started()
    backup.publication(leader)
    for follower in world.followers():
        world.kill(follower.id)
    world.until(lambda: leader.module.election is not None)
    backup.send(leader, backup.query())
    world.advance(500)
    assert waiting(leader) == 0
    assert backup.heard == []


def test_a_query_to_a_suspended_cluster_is_answered_when_it_goes_on() -> None:
    world, leader, backup = started()
    backup.publication(leader)
    toggle(leader, ControlToggle.SUSPEND)
    world.until(lambda: leader.module.state is ModuleState.SUSPENDED)
    backup.send(leader, backup.query(9))
    world.advance(500)
    assert waiting(leader) == 1
    assert backup.heard == []
    leader.module.counters.control_toggle.set(ControlToggle.RESUME)
    world.until(lambda: bool(backup.heard))
    assert isinstance(backup.heard[0], cm.BackupResponse)
    assert backup.heard[0].correlation_id == 9


def test_who_cannot_be_reached_is_forgotten_after_the_session_time_out() -> None:
    world, leader, backup = started(1)
    backup.send(leader, with_values(backup.query(), response_channel="aeron:tcp?endpoint=nobody:1"))
    world.settle()
    assert waiting(leader) == 1
    world.advance(world.settings.cluster.timeouts.session_ns // 1_000_000 + 100, step_ms=100)
    assert waiting(leader) == 0
    assert isinstance(backup.ask(leader, backup.query()), cm.BackupResponse)


@pytest.mark.parametrize("channel", ["aeron:ipc", "aeron-spy:aeron:tcp?endpoint=x:1", "nonsense", "", "aeron:udp"])
def test_a_response_channel_of_no_use_costs_nothing(channel: str) -> None:
    world, leader, backup = started(1)
    backup.send(leader, with_values(backup.query(77), response_channel=channel))
    world.settle()
    assert waiting(leader) == 0
    assert "BackupQuery with a response channel of no use from" in leader.errors.texts[-1]
    assert "77" in leader.errors.texts[-1]
    assert isinstance(backup.ask(leader, backup.query()), cm.BackupResponse)


class LateName:
    """A `Resolver` that does not know any name until `is_known` is set."""

    def __init__(self) -> None:
        self.is_known = False
        self.asked = 0

    def resolve(self, endpoint: str, stream_id: int) -> str:
        self.asked += 1
        if not self.is_known:
            raise NetworkError(f"{endpoint} is not known at the moment")
        return endpoint


@pytest.mark.parity("SM-02")
@pytest.mark.parametrize("is_client", [True, False])
def test_a_response_stream_that_cannot_be_opened_for_now_is_tried_again(is_client: bool) -> None:
    world, leader, backup = started(1)
    backup.publication(leader)
    names = LateName()
    leader.driver._resolver = names
    if is_client:
        request = cm.SessionConnectRequest(5, STREAM, VERSION, backup.channel)
        ingress = backup.driver.add_publication(f"aeron:tcp?endpoint=m{leader.id}:1", 101)
        world.until(lambda: ingress.offer(cm.SCHEMA.encode(request)) > 0)
    else:
        backup.send(leader, backup.query(5))
    world.advance(500)
    assert names.asked > 1
    assert backup.heard == []
    names.is_known = True
    world.until(lambda: bool(backup.heard))
    answer = backup.heard[0]
    assert isinstance(answer, cm.SessionEvent if is_client else cm.BackupResponse)
    assert answer.correlation_id == 5


# --- who may ---


@pytest.mark.parametrize("is_leader", [True, False])
def test_a_challenge_goes_to_the_response_channel_and_its_answer_back_on_the_consensus_stream(is_leader: bool) -> None:
    PrincipalOnly.asked.clear()
    named = {
        "authenticator": "support.asking_party:Challenges",
        "authorisation": "support.asking_party:PrincipalOnly",
    }
    world, leader, backup = started(settings=configured(**named))
    member = leader if is_leader else world.followers()[0]
    sent = len(member.trace.named("send"))
    challenge = backup.ask(member, backup.query(5))
    assert challenge == cm.Challenge(5, -1, b"who?")
    response = backup.ask(member, cm.ChallengeResponse(6, -1, b"secret"))
    assert isinstance(response, cm.BackupResponse)
    assert response.correlation_id == 6
    assert PrincipalOnly.asked == [(111, 77, None, b"principal")]
    told_members = {each["message"] for each in member.trace.named("send")[sent:]}
    assert told_members <= {"CommitPosition", "AppendPosition"}


def test_a_wrong_answer_to_a_challenge_is_rejected() -> None:
    _, leader, backup = started(1, configured(authenticator="support.asking_party:Challenges"))
    assert isinstance(backup.ask(leader, backup.query(5)), cm.Challenge)
    refused = backup.ask(leader, cm.ChallengeResponse(8, -1, b"guess"))
    assert told(refused) == (cm.EventCode.AUTHENTICATION_REJECTED, "session failed authentication")
    assert isinstance(refused, cm.SessionEvent)
    assert refused.correlation_id == 8
    assert waiting(leader) == 0


def test_nobody_answers_a_challenge_for_another_host() -> None:
    world, leader, backup = started(1, configured(authenticator="support.asking_party:Challenges"))
    challenge = backup.ask(leader, backup.query(5))
    assert isinstance(challenge, cm.Challenge)
    leader.module._messages.peer = "stranger:1"
    leader.module._messages.on_challenge_response(
        world.now, cm.ChallengeResponse(6, challenge.cluster_session_id, b"guess")
    )
    world.advance(100)
    answer = backup.ask(leader, cm.ChallengeResponse(7, challenge.cluster_session_id, b"secret"))
    assert isinstance(answer, cm.BackupResponse)
    assert len(backup.heard) == 2


def test_two_that_are_challenged_at_once_are_told_apart() -> None:
    world, leader, backup = started(1, configured(authenticator="support.asking_party:Challenges"))
    other = Party(world, "other")
    first, second = backup.ask(leader, backup.query(5)), other.ask(leader, other.query(5))
    assert isinstance(first, cm.Challenge)
    assert isinstance(second, cm.Challenge)
    assert first.cluster_session_id != second.cluster_session_id
    backup.send(leader, cm.ChallengeResponse(6, first.cluster_session_id, b"guess"))
    answer = other.ask(leader, cm.ChallengeResponse(7, second.cluster_session_id, b"secret"))
    assert isinstance(answer, cm.BackupResponse)
    world.settle()
    assert [told(each)[0] for each in backup.heard[1:]] == [cm.EventCode.AUTHENTICATION_REJECTED]


@pytest.mark.parametrize(
    ("name", "template"), [("BackupQuery", 77), ("Heartbeat", 79), ("StandbySnapshot", 81)], ids=["77", "79", "81"]
)
def test_who_is_not_authorised_is_told_so(name: str, template: int) -> None:
    PrincipalOnly.asked.clear()
    _, leader, backup = started(1, configured(authorisation="support.asking_party:PrincipalOnly"))
    request = {77: backup.query(), 79: backup.heartbeat(), 81: backup.notice()}[template]
    refused = told(backup.ask(leader, request))
    assert refused == (cm.EventCode.AUTHENTICATION_REJECTED, f"Not authorised for {name}")
    assert PrincipalOnly.asked == [(111, template, None, b"")]


def test_a_member_that_does_not_take_notices_of_standbys_says_so() -> None:
    _, leader, backup = started(1, configured(accept_standby_snapshots=False))
    refused = told(backup.ask(leader, backup.notice()))
    assert refused == (cm.EventCode.ERROR, "Not configured to accept StandbySnapshot")


# --- how many ---


def test_how_many_wait_is_bounded_for_each_peer_and_in_all() -> None:
    world, leader, _ = started(1)
    toggle(leader, ControlToggle.SUSPEND)
    world.until(lambda: leader.module.state is ModuleState.SUSPENDED)
    backups = leader.module._backups
    assert isinstance(backups, BackupSessions)
    asked = 0
    for number in range(MAX_WAITING):
        for port in range(MAX_WAITING_OF_PEER + 3):
            message = cm.HeartbeatRequest(asked, STREAM, f"aeron:tcp?endpoint=far-{asked}:1", b"")
            leader.module._messages.peer = f"host-{number}:{port}"
            leader.module._messages.on_heartbeat_request(world.now, message)
            asked += 1
        of_host = sum(each.peer.startswith(f"host-{number}:") for each in backups._waiting)
        assert of_host <= MAX_WAITING_OF_PEER
    assert waiting(leader) == MAX_WAITING
    assert leader.module.counters.ignored_messages.get() == asked - MAX_WAITING
    ids = [each.session.id for each in backups._waiting]
    assert sorted(ids) == list(range(-MAX_WAITING, 0))
    reports = [text for text in leader.errors.texts if "too many requests" in text]
    assert len(reports) == MAX_WAITING
