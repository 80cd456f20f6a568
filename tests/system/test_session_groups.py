"""Sessions of one process that share their streams: each gets its own, follows the leader, and ends alone."""

import contextlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from support.system_world import System
from upheaval.runtimes.simulated.process import SimulatedProcess
from upheaval_node.client.session import ClusterClient
from upheaval_node.client.session_group import SessionGroup
from upheaval_node.errors import UsageError
from upheaval_node.media.api import Abort
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.settings import MemberSettings, profile_settings
from upheaval_node.types import MS, Now, S

COUNT = 30
MAX_KEPT_LENGTH = 5000


def with_sessions(count: int) -> MemberSettings:
    settings = profile_settings("test")
    return replace(settings, cluster=replace(settings.cluster, max_sessions=count))


class Party:
    """A process with a group of sessions, and what each of them received."""

    def __init__(self, system: System, keep_alive_interval_ns: int | None = S) -> None:
        cluster, name = system.cluster, "party-of-many"
        self.system = system
        self.process = SimulatedProcess(cluster.world, name, name, on_exit=lambda _process: None)
        network, stream = cluster.fabric.network(self.process), cluster.world.stream
        self.media = MediaDriver(network, StaticResolver(), cluster.settings.media, stream(name), name=name)
        self.group = SessionGroup(
            self.media,
            cluster.ingress_endpoints,
            random=stream(f"{name}/sessions"),
            keep_alive_interval_ns=keep_alive_interval_ns,
            max_kept_length=MAX_KEPT_LENGTH,
        )
        self.received: list[list[bytes]] = []
        self.sessions: list[ClusterClient] = []
        self.process.start([self.media, self.group])

    def open(self, count: int) -> None:
        """As many more sessions, all of them connected."""
        wanted = len(self.sessions) + count
        self.act(lambda: [self._open() for _ in range(count)])
        self.until(lambda: sum(each.is_connected for each in self.sessions) == wanted, f"{wanted} sessions")

    def _open(self) -> None:
        received: list[bytes] = []

        def keep(_timestamp: int, payload: Buffer) -> None:
            received.append(bytes(payload))

        self.received.append(received)
        self.sessions.append(self.group.open(keep))

    def act(self, action: Callable[[], object]) -> None:
        self.process.post(lambda: action() and None)

    def until(self, condition: Callable[[], bool], what: str, timeout_s: float = 20) -> None:
        self.system.until(condition, what, timeout_s)

    def say(self, text: str) -> None:
        """One message of each session that is open, and its answer."""
        spoken = [number for number, each in enumerate(self.sessions) if not each.is_closed]
        before = {number: len(self.received[number]) for number in spoken}
        self.act(lambda: [self._offer(number, text) for number in spoken])
        self.until(lambda: all(len(self.received[each]) > before[each] for each in spoken), f"answers to {text}")
        assert [self.received[each][before[each] :] for each in spoken] == [[_message(each, text)] for each in spoken]

    def _offer(self, number: int, text: str) -> None:
        assert self.sessions[number].offer(_message(number, text)) > 0, number


def _message(number: int, text: str) -> bytes:
    return f"{text} of {number}".encode()


def test_each_session_gets_its_own_answers_over_one_connection_to_each_member() -> None:
    system = System()
    party = Party(system)
    party.open(5)
    party.say("hello")
    assert len({each.session_id for each in party.sessions}) == 5
    assert len(party.media.endpoints.links) == len(system.live)
    assert len(party.group.egress.images) == 2  # of the consensus module and of the service


def test_all_sessions_of_a_group_follow_the_leader() -> None:
    system = System(settings=with_sessions(COUNT))
    party = Party(system)
    party.open(COUNT)
    party.say("before")
    ids = [each.session_id for each in party.sessions]
    old = system.leader()
    system.kill(old)
    new = system.leader()
    term = system.status(new).leadership_term_id
    party.until(
        lambda: all(each.is_connected and each.leadership_term_id == term for each in party.sessions), "new leader"
    )
    party.say("after")
    assert [each.session_id for each in party.sessions] == ids
    assert {each.leader_member_id for each in party.sessions} == {new}


def test_a_session_ends_alone() -> None:
    system = System()
    party = Party(system)
    party.open(3)
    party.act(party.sessions[1].close)
    party.until(lambda: len(party.group) == 2, "end of a session")
    party.say("still here")
    party.until(lambda: all(len(system.service(each).closed) == 1 for each in system.live), "end in the log")
    party.act(party.group.close)
    party.until(lambda: all(len(system.service(each).closed) == 3 for each in system.live), "end of all")
    system.run_for(3)
    assert not party.group
    assert not party.media.endpoints.links or not any(link.senders for link in party.media.endpoints.links)


def test_a_refused_session_leaves_the_others_alone() -> None:
    system = System(settings=with_sessions(2))
    party = Party(system)
    party.open(2)
    party.act(party._open)
    party.until(lambda: any(each.is_closed for each in party.sessions), "refusal")
    assert "concurrent session limit" in str(party.sessions[-1].error)
    assert len(party.group) == 2
    party.say("still here")


def test_silent_sessions_stay_and_those_that_keep_nothing_alive_are_closed() -> None:
    system = System()
    party = Party(system)
    party.open(3)
    system.run_for(25)
    party.say("still here")
    system.cluster.fabric.kill(party.process)
    party.process.kill()
    system.until(lambda: all(len(system.service(each).closed) == 3 for each in system.live), "end of all", 30)


@pytest.mark.parametrize("count", [1, 300])
def test_what_a_handler_does_not_take_comes_again_and_holds_the_others_up_at_a_limit(count: int) -> None:
    system = System()
    party = Party(system)
    taken: list[bytes] = []
    is_open = False

    def refuse(_timestamp: int, payload: Buffer) -> None:
        if not is_open:
            raise Abort
        taken.append(bytes(payload))

    party.open(1)
    slow: list[ClusterClient] = []
    party.act(lambda: slow.append(party.group.open(refuse)))
    party.until(lambda: bool(slow) and slow[0].is_connected, "session")
    sent = [b"%d" % number for number in range(count)]
    party.act(lambda: [require(slow[0].offer(message) > 0) for message in sent])
    system.await_messages(count)
    system.run_for(0.1)
    party.act(lambda: party._offer(0, "held up"))
    system.run_for(0.5)
    is_held_up = count > 1
    assert party.received == [[] if is_held_up else [_message(0, "held up")]]
    assert party.group.kept_length < 2 * MAX_KEPT_LENGTH
    is_open = True
    party.until(lambda: len(taken) == count, "what was held up", 0.5)
    assert taken == sent
    party.until(lambda: len(party.received[0]) == 1, "what waited behind it")
    assert party.group.kept_length == 0


def require(holds: bool) -> None:
    assert holds


@pytest.mark.pure
def test_a_handler_that_raises_costs_no_other_session_its_turn() -> None:
    system = System()
    party = Party(system)
    party.open(3)
    raised: list[bytes] = []

    def fail(_timestamp: int, payload: Buffer) -> None:
        raised.append(bytes(payload))
        raise ValueError("of the program")

    failing: list[ClusterClient] = []
    party.act(lambda: failing.append(party.group.open(fail)))
    party.until(lambda: bool(failing) and failing[0].is_connected, "session")
    guarded = party.group.do_work

    def catching(now: Now) -> int:
        with contextlib.suppress(ValueError):
            return guarded(now)
        return 1

    party.group.do_work = catching  # type: ignore[method-assign]
    party.act(lambda: [require(failing[0].offer(b"x") > 0) for _ in range(3)])
    party.say("beside it")
    party.until(lambda: len(raised) == 3, "three messages")
    system.run_for(25)
    assert not failing[0].is_closed
    party.say("still here")


def test_a_keep_alive_that_was_not_taken_is_sent_as_soon_as_there_is_room() -> None:
    system = System()
    party = Party(system, keep_alive_interval_ns=50 * MS)
    party.open(4)
    leader = system.cluster.members[system.leader()].process
    assert leader is not None
    leader.pause()
    party.act(lambda: [None for _ in range(100_000) if party.sessions[0].offer(bytes(1000)) > 0])
    system.run_for(0.3)
    assert all(each.owes_keep_alive for each in party.sessions)
    leader.resume()
    party.until(lambda: not any(each.owes_keep_alive for each in party.sessions), "room", 0.2)
    party.until(lambda: len(party.received[0]) > 10, "answers")
    assert all(each.is_connected for each in party.sessions)


def test_the_end_of_a_session_is_told_when_its_stream_has_room_again() -> None:
    settings = with_sessions(100)
    timeouts = replace(settings.cluster.timeouts, session_ns=S)
    media = replace(settings.media, receiver_window_length=4096)
    settings = replace(settings, media=media, cluster=replace(settings.cluster, timeouts=timeouts))
    system = System(settings=settings)
    party = Party(system, keep_alive_interval_ns=None)
    is_open = False

    def refuse(_timestamp: int, _payload: Buffer) -> None:
        if not is_open:
            raise Abort

    lasting: list[ClusterClient] = []
    party.act(lambda: lasting.append(party.group.open(refuse)))
    party.until(lambda: bool(lasting) and lasting[0].is_connected, "session")
    party.open(3 * COUNT)
    for _ in range(20):
        party.act(lambda: [lasting[0].send_keep_alive(), *(lasting[0].offer(bytes(500)) for _ in range(8))])
        system.run_for(0.1)
    assert any(each.is_connected for each in party.sessions), "the ends of all were told already"
    is_open = True
    for _ in range(20):
        party.act(lambda: lasting[0].send_keep_alive())
        system.run_for(0.1)
    assert all(each.is_closed for each in party.sessions)
    assert lasting[0].is_connected


def test_a_number_that_a_dead_leader_gave_leads_to_whoever_has_it_now() -> None:
    system = System()
    party = Party(system)
    party.open(2)
    first, second = (party.group._by_session[each.session_id] for each in party.sessions)
    event = cm.SessionEvent(
        cluster_session_id=first.session_id, correlation_id=second.request_id, code=cm.EventCode.OK, detail=""
    )
    second.session_id = -1
    assert party.group._seat_of(event) is second
    assert party.group._by_session[first.session_id] is second
    strange = cm.SessionEvent(cluster_session_id=99, correlation_id=second.request_id, code=cm.EventCode.OK, detail="")
    assert party.group._seat_of(strange) is second
    assert 99 not in party.group._by_session
    party.group.forget(first)
    assert party.group._by_session[first.session_id] is second


def test_a_closed_group_opens_nothing() -> None:
    system = System()
    party = Party(system)
    party.group.close()
    with pytest.raises(UsageError, match="the group is closed"):
        party._open()
