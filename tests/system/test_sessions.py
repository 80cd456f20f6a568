"""Clients and their sessions: connecting by whichever member, answers, limits, silence, requests for snapshots."""

from dataclasses import replace

import pytest

from support.system_world import Chorus, System, numbered
from upheaval.runtimes.simulated.process import SimulatedProcess
from upheaval_node.archive.reader import read_recordings
from upheaval_node.client.session import ClusterClient
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.counters import CLIENT_TIMEOUT_COUNT, SNAPSHOT_COUNT
from upheaval_node.media.api import Break
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.settings import MemberSettings, profile_settings
from upheaval_node.types import MS, Now


def with_settings(**changes: object) -> MemberSettings:
    settings = profile_settings("test")
    return replace(settings, cluster=replace(settings.cluster, **changes))  # type: ignore[arg-type]


@pytest.mark.parity("CT-05", "SN-03", "CN-01")
def test_a_client_connects_says_something_and_leaves() -> None:
    system = System()
    client = system.client()
    system.echo(client, [b"hello"])
    assert client.received == [b"hello"]
    system.act(client, ClusterClient.close)
    system.until(lambda: all(system.service(each).closed for each in system.live), "end of the session")
    assert {tuple(system.service(each).closed) for each in system.live} == {((client.id, "CLIENT_ACTION"),)}


@pytest.mark.parity("CT-12")
def test_a_client_that_is_polled_while_it_connects_gets_its_answers() -> None:
    system = System(starts=())
    client = system.connecting_client()
    system.run_for(0.5)
    assert not client.is_connected
    system.start()
    system.until(lambda: client.is_connected, "session")
    system.echo(client, numbered("a", 10))
    assert client.received == numbered("a", 10) == system.service(system.leader()).messages


@pytest.mark.parity("CT-36")
def test_a_silent_client_is_closed_and_counted() -> None:
    system = System()
    client = system.client(keep_alive_interval_ns=None)
    leader = system.leader()
    system.run_for(9)
    assert client.is_connected
    system.until(lambda: client.is_closed, "end of the session", timeout_s=3)
    assert client.session is not None
    assert "TIMEOUT" in str(client.session.error)
    assert system.counter(leader, CLIENT_TIMEOUT_COUNT) == 1


@pytest.mark.parity("CT-69")
def test_messages_in_fragments_are_the_same_in_every_service_and_in_the_log() -> None:
    system = System()
    client = system.client()
    payloads = [bytes([65 + number]) * size for number, size in enumerate((1, 1312, 1313, 4000, 7900, 2))]
    system.echo(client, payloads)
    system.await_messages(len(payloads))
    assert [system.service(each).messages for each in system.live] == [payloads] * 3
    for member_id in system.live:
        member = system.cluster.members[member_id]
        assert member.process is not None
        storage = member.disk.storage(member.process)
        log = max(read_recordings(storage), key=lambda recording: sum(1 for _ in recording.frames()))
        content = b"".join(bytes(frame.payload) for frame in log.frames())
        positions = [content.find(payload[:1300]) for payload in payloads[1:5]]
        assert -1 not in positions
        assert positions == sorted(positions)


@pytest.mark.parity("CT-73")
def test_ids_of_clients_that_were_refused_are_in_no_snapshot() -> None:
    system = System(settings=with_settings(max_sessions=1))
    system.client()
    for _ in range(2):
        refused = system.connecting_client()
        system.until(lambda each=refused: each.is_closed, "refusal")  # type: ignore[misc]
        assert refused.session is not None
        assert "concurrent session limit" in str(refused.session.error)
    leader = system.leader()
    assert system.modules[leader]._state.sessions.next_session_id > 2
    system.snapshot()
    assert {system.modules[each]._state.sessions.next_committed_session_id for each in system.live} == {2}
    system.kill()
    system.start()
    system.leader()
    assert {system.modules[each]._state.sessions.next_committed_session_id for each in system.live} == {2}


@pytest.mark.parity("CT-74")
def test_a_client_that_knows_followers_only_comes_to_the_leader() -> None:
    system = System()
    leader = system.leader()
    client = system.client(members=system.followers())
    assert client.leader_id == leader
    system.echo(client, [b"x"])
    assert client.received == [b"x"]


@pytest.mark.parity("CT-78")
@pytest.mark.parametrize("wrong", ["{}", "nowhere:9000", "member-{leader}:9999"])
def test_a_redirect_leads_to_where_the_leader_is_whatever_the_client_was_told(wrong: str) -> None:
    system = System()
    leader = system.leader()
    known = dict(system.cluster.ingress_endpoints)
    known[leader] = wrong.format(known[leader], leader=leader)
    client = system.client(endpoints=known)
    assert client.leader_id == leader
    assert client.session is not None
    assert dict(client.session.ingress_endpoints) == system.cluster.ingress_endpoints
    system.echo(client, [b"x"])


@pytest.mark.parity("MN-05")
@pytest.mark.parametrize("port", [0, 9777])
def test_a_client_may_have_an_egress_port_of_its_own(port: int) -> None:
    system = System()
    client = system.client(egress_channel=f"aeron:tcp?endpoint=party-1:{port}")
    system.echo(client, numbered("a", 10))
    assert client.received == numbered("a", 10)


class Watching:
    """Allows everything or nothing, and keeps what was asked."""

    def __init__(self, allows: bool) -> None:
        self.allows = allows
        self.asked: list[tuple[int, int, int | None]] = []

    def is_authorised(self, schema_id: int, template_id: int, request_type: int | None, principal: bytes) -> bool:
        self.asked.append((schema_id, template_id, request_type))
        return self.allows

    def watch(self, member_id: int, module: ConsensusModule) -> None:
        module._state.sessions._authorisation = self


def request(system: System, request_type: int) -> cm.AdminResponse:
    """What a client is answered that asks for this."""
    client = system.client()

    def send(session: ClusterClient) -> None:
        message = cm.AdminRequest(session.leadership_term_id, session.session_id, 9, request_type)
        session._try_to_send(cm.SCHEMA.encode(message))

    system.act(client, send)
    system.until(lambda: bool(client.answers), "answer")
    (answer,) = client.answers
    return answer


@pytest.mark.parity("CT-59")
def test_a_snapshot_that_a_client_may_not_ask_for_is_taken_by_nobody() -> None:
    system = System(on_build=Watching(allows=False).watch)
    answer = request(system, cm.AdminRequestType.SNAPSHOT)
    assert answer.response_code == cm.AdminResponseCode.UNAUTHORISED_ACCESS
    assert "not authorised" in answer.message
    system.run_for(1)
    assert system.snapshot_counts() == dict.fromkeys(range(3), 0)


@pytest.mark.parity("CT-60")
def test_a_request_of_an_unknown_type_is_named_in_the_answer() -> None:
    rule = Watching(allows=True)
    system = System(on_build=rule.watch)
    answer = request(system, 5)
    assert (answer.response_code, answer.message) == (cm.AdminResponseCode.ERROR, "Unknown request type: 5")
    assert rule.asked == [(111, 26, 5)]
    assert system.snapshot_counts() == dict.fromkeys(range(3), 0)


@pytest.mark.parity("CT-61")
def test_a_client_that_may_has_a_snapshot_taken_by_every_member() -> None:
    system = System(on_build=Watching(allows=True).watch)
    answer = request(system, cm.AdminRequestType.SNAPSHOT)
    assert answer.response_code == cm.AdminResponseCode.OK
    system.until(lambda: set(system.snapshot_counts().values()) == {1}, "snapshot")
    system.until(system.is_neutral, "end of the order")
    assert [len(system.snapshot_entries(each)) for each in system.live] == [2, 2, 2]


@pytest.mark.parity("CT-63")
def test_an_answer_comes_to_a_client_that_takes_one_message_at_a_time() -> None:
    system = System(settings=with_settings(authorisation="ALLOW_ALL"))
    client = system.client()
    taken: list[bytes] = []

    def take(timestamp: int, payload: Buffer) -> None:
        taken.append(bytes(payload))
        raise Break

    client.on_message = take
    system.say(client, numbered("a", 5))
    system.act(client, lambda session: session.send_snapshot_request(9))
    system.until(lambda: bool(client.answers) and len(taken) == 5, "answers")
    assert client.answers[0].response_code == cm.AdminResponseCode.OK
    assert taken == numbered("a", 5)
    system.until(lambda: system.counter(system.leader(), SNAPSHOT_COUNT) == 1, "snapshot")


@pytest.mark.parity("MS-01")
def test_two_services_of_a_member_hear_every_message() -> None:
    system = System(services=lambda: [Chorus(), Chorus()])
    client = system.client()
    system.say(client, numbered("a", 20))
    system.until(lambda: len(client.received) == 40, "answers of both")
    system.await_messages(20)
    assert [len(service.messages) for each in system.live for service in system.services[each]] == [20] * 6


class Returning:
    """A client at an address of its own. Implements `ports.Agent`."""

    def __init__(self, system: System, incarnation: int) -> None:
        cluster, name = system.cluster, "returning"
        self.process = SimulatedProcess(cluster.world, name, f"{name}#{incarnation}", on_exit=lambda _process: None)
        network, stream = cluster.fabric.network(self.process), cluster.world.stream(f"{name}/{incarnation}")
        media = MediaDriver(network, StaticResolver(), cluster.settings.media, stream, name=name)
        egress = f"aeron:tcp?endpoint={name}:9000"
        self.session = ClusterClient(media, cluster.ingress_endpoints, random=stream, egress_channel=egress)
        self.received: list[bytes] = []
        self.process.start([media, self])

    def do_work(self, now: Now) -> int:
        return self.session.do_work(now) + self.session.poll(lambda _, payload: self.received.append(bytes(payload)))

    def next_deadline_ns(self) -> int:
        return self.session.next_deadline_ns()


@pytest.mark.parametrize("gap_s", [0.01, 0.2, 0.55, 1.5, 3.3])
def test_a_client_that_comes_again_to_its_address_gets_a_session_of_its_own(gap_s: float) -> None:
    settings = profile_settings("test")
    system = System(settings=replace(settings, media=replace(settings.media, redial_interval_ns=100 * MS)))
    system.leader()
    before = Returning(system, 1)
    system.until(lambda: before.session.is_connected, "first session")
    before.process.post(lambda: before.session.offer(b"x") and None)
    system.until(lambda: before.received == [b"x"], "answer")
    system.cluster.fabric.kill(before.process)
    before.process.kill()
    system.run_for(gap_s)
    again = Returning(system, 2)
    system.until(lambda: again.session.is_connected, "second session", timeout_s=2)
    again.process.post(lambda: again.session.offer(b"y") and None)
    system.until(lambda: again.received == [b"y"], "answer")
