"""Sessions through a bridge: what is said to it, and what a session makes of what it says."""

import socket
import struct
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from support.memory_network import MemoryNetwork
from upheaval.errors import EnvironmentFault
from upheaval.records import Operation, Outcome, SessionCause, SessionEnd, decode_operation
from upheaval.runtimes.ports import cluster_ports, egress_ports, member_ports
from upheaval.system.aeron_clients import Bridge as BridgeProcess, BridgeSession, Egress
from upheaval.system.clients import WayIn
from upheaval.waits import wait_until
from upheaval.workload import Load, WorkloadSettings, session_end
from upheaval_node.media.api import BACK_PRESSURED, NOT_CONNECTED
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.ports import Buffer, Connection
from upheaval_node.service.services.workbench import Workbench
from upheaval_node.types import Now

BRIDGE = "127.0.0.1:7000"
NOW = Now(0, 0)


class Bridge:
    """The other end: keeps the frames that it gets."""

    def __init__(self, network: MemoryNetwork) -> None:
        self.network = network
        self.frames: list[tuple[str, bytes]] = []
        self.connection: Connection | None = None
        self.is_left = False
        self._received = bytearray()
        network.listen(BRIDGE, self._accept)

    def _accept(self, connection: Connection) -> "Bridge":
        self.connection = connection
        return self

    def on_connected(self, connection: Connection) -> None:
        """Nothing to say yet."""

    def on_writable(self) -> None:
        """Nothing waits."""

    def on_closed(self, _reason: str) -> None:
        self.is_left = True

    def on_data(self, data: memoryview) -> None:
        self._received += data
        while len(self._received) >= 4:
            (length,) = struct.unpack_from("<i", self._received)
            if len(self._received) < 4 + length:
                return
            self.frames.append((chr(self._received[4]), bytes(self._received[5 : 4 + length])))
            del self._received[: 4 + length]

    def say(self, kind: str, body: bytes) -> None:
        assert self.connection is not None
        self.connection.send([struct.pack("<i", len(body) + 1), kind.encode(), body])

    def tell_leader(self, term: int, leader: int, session: int) -> None:
        self.say("L", struct.pack("<qiq", term, leader, session))

    def settle(self) -> None:
        while self.network.step():
            pass


def opened(network: MemoryNetwork | None = None) -> tuple[Bridge, BridgeSession]:
    bridge = Bridge(network or MemoryNetwork())
    session = BridgeSession(bridge.network, BRIDGE, "0=a:1,1=b:1")
    bridge.settle()
    return bridge, session


def heard(session: BridgeSession, limit: int = 100) -> list[bytes]:
    answers: list[bytes] = []

    def take(_position: int, payload: Buffer) -> None:
        answers.append(bytes(payload))

    session.poll(take, limit)
    return answers


def test_it_is_connected_when_the_bridge_names_a_leader() -> None:
    bridge, session = opened()
    assert bridge.frames == [("C", b"0=a:1,1=b:1")]
    assert not session.is_connected
    assert session.offer(b"too early") == NOT_CONNECTED
    bridge.tell_leader(3, 1, 9)
    bridge.settle()
    assert session.is_connected
    assert (session.leadership_term_id, session.opened_term_id, session.session_id) == (3, 3, 9)
    bridge.tell_leader(4, 0, 9)
    bridge.settle()
    assert (session.leadership_term_id, session.opened_term_id) == (4, 3)


@given(st.lists(st.binary(max_size=300), max_size=20), st.lists(st.integers(1, 40), min_size=1))
def test_messages_arrive_whole_however_they_are_cut(messages: list[bytes], pieces: list[int]) -> None:
    bridge, session = opened(MemoryNetwork(iter(pieces * 5000)))
    bridge.tell_leader(0, 0, 1)
    bridge.settle()
    for message in messages:
        assert session.offer(message[:3], message[3:]) > 0
        bridge.say("R", message)
    bridge.settle()
    assert session.do_work(NOW) > 0
    assert bridge.frames[1:] == [("O", message) for message in messages]
    assert heard(session) == messages


def test_a_bridge_that_takes_nothing_makes_the_load_wait() -> None:
    bridge, session = opened(MemoryNetwork(capacity=1 << 12))
    bridge.tell_leader(0, 0, 1)
    bridge.settle()
    count = 0
    while session.offer(bytes(1000)) > 0:
        count += 1
    assert session.offer(b"more") == BACK_PRESSURED
    bridge.settle()
    assert [kind for kind, _ in bridge.frames] == ["C", *"O" * count]
    assert session.offer(b"more") > 0


def test_what_was_not_handed_on_is_given_back_once_and_is_no_answer() -> None:
    bridge, session = opened()
    bridge.tell_leader(0, 0, 1)
    bridge.settle()
    numbers = [session.offer(each) for each in (b"same", b"same", b"same")]
    assert len(set(numbers)) == 3
    bridge.say("N", struct.pack("<q", 2))
    bridge.settle()
    assert session.is_connected
    assert heard(session) == []
    assert list(session.given_back()) == [numbers[1]]
    assert list(session.given_back()) == []


def test_a_client_behind_a_bridge_does_not_fall_silent() -> None:
    """The bridge would keep its session alive."""
    network = MemoryNetwork()
    bridge = Bridge(network)
    ends: list[SessionEnd] = []
    load = Load(
        WorkloadSettings(slots=1, sessions=1, silent=1),
        open_session=lambda: BridgeSession(network, BRIDGE, "0=a:1"),
        record=lambda _: None,
        record_end=ends.append,
        record_stray=lambda _: None,
        clock_ns=lambda: 5,
    )
    load.do_work(NOW)
    bridge.settle()
    # The last one that dialled is the client that was to fall silent.
    bridge.tell_leader(0, 0, 7)
    bridge.settle()
    load.do_work(NOW)
    bridge.settle()
    asked = [body for kind, body in bridge.frames if kind == "O"]
    bridge.say("R", Workbench().execute(asked[0], 64))
    bridge.settle()
    load.do_work(NOW)
    bridge.settle()
    assert len([body for kind, body in bridge.frames if kind == "O"]) == len(asked) + 1
    load.close()
    assert [(end.session, end.cause) for end in ends] == [(7, SessionCause.CLIENT)]


def test_a_load_counts_what_is_given_back_as_failed_and_the_rest_as_unknown() -> None:
    network = MemoryNetwork()
    bridge = Bridge(network)
    history: list[Operation] = []
    load = Load(
        WorkloadSettings(slots=3, sessions=1),
        open_session=lambda: BridgeSession(network, BRIDGE, "0=a:1"),
        record=history.append,
        record_end=lambda _: None,
        record_stray=lambda _: None,
        clock_ns=lambda: 5,
    )
    load.do_work(NOW)
    bridge.settle()
    bridge.tell_leader(0, 0, 7)
    bridge.settle()
    load.do_work(NOW)
    load.stop()
    bridge.settle()
    ids = [decode_operation(body)[0] for kind, body in bridge.frames if kind == "O"]
    assert len(ids) == 3
    bridge.say("N", struct.pack("<q", 2))
    bridge.settle()
    load.do_work(NOW)
    bridge.say("D", b"closed by the cluster")
    bridge.settle()
    load.do_work(NOW)
    outcomes = {each.id: (each.outcome, each.session) for each in history}
    assert outcomes == {
        ids[0]: (Outcome.UNKNOWN, 7),
        ids[1]: (Outcome.FAIL, None),
        ids[2]: (Outcome.UNKNOWN, 7),
    }
    assert (load.counts.ok, load.counts.fail, load.counts.unknown) == (0, 1, 2)


def test_the_load_closes_a_session() -> None:
    bridge, session = opened()
    bridge.tell_leader(0, 0, 1)
    bridge.settle()
    session.close()
    bridge.settle()
    assert session.is_closed
    assert bridge.frames[-1] == ("X", b"")
    assert bridge.is_left
    end = session_end(session, 5)
    assert end is not None
    assert end.cause is SessionCause.CLIENT


@pytest.mark.parametrize("by_bridge", [True, False])
def test_a_session_that_was_lost_says_why(*, by_bridge: bool) -> None:
    bridge, session = opened()
    bridge.tell_leader(2, 0, 1)
    bridge.settle()
    if by_bridge:
        bridge.say("E", b"ERROR no")
        bridge.say("D", b"closed by the cluster")
        bridge.settle()
    else:
        bridge.network.cut()
    assert session.is_closed
    assert not session.is_connected
    said = "closed by the cluster; before that, ERROR no" if by_bridge else "the bridge closed the connection"
    assert said in str(session.error)
    end = session_end(session, 5)
    assert end is not None
    assert (end.cause, end.session) == (SessionCause.LOST, 1)


def test_a_session_that_never_opened_has_no_end() -> None:
    bridge, session = opened()
    bridge.say("D", b"no leader")
    bridge.settle()
    assert session.is_closed
    assert session_end(session, 5) is None


def way_in(egress_endpoints: Sequence[str]) -> WayIn:
    return WayIn("7f", Path(), {0: "a:1"}, StaticResolver(), "here", egress_endpoints)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo Error: >&2; echo Caused by: no such class >&2; exit 1", "Caused by: no such class"),
        ("echo hello; exit 1", r"it printed b'hello\n'"),
        ("exit 0", "it printed b''"),
    ],
)
def test_a_bridge_that_does_not_start_says_why(script: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault) as raised:
        BridgeProcess(["sh", "-c", script], tmp_path, tmp_path / "driver", Egress(way_in(())))
    assert str(raised.value) == f"the bridge for clients does not start: {why} (see {tmp_path}/bridge.log)"


def test_a_clients_code_may_print_before_and_after_the_bridge_listens(tmp_path: Path) -> None:
    """After it the shell prints more than a pipe holds, and only then ends."""
    done = tmp_path / "done"
    script = f"echo starting; echo BRIDGE is ready; echo BRIDGE 7001; head -c 1000000 /dev/zero; touch {done}; cat"
    bridge = BridgeProcess(["sh", "-c", script], tmp_path, tmp_path / "driver", Egress(way_in(())))
    try:
        assert bridge.address == "127.0.0.1:7001"
        wait_until(done.exists, timeout_s=60, describe=lambda: "it waits for a reader of what it prints")
    finally:
        bridge.close()


def test_a_bridge_that_ended_by_itself_says_how(tmp_path: Path) -> None:
    script = "echo BRIDGE 7001; echo Exception: no memory >&2; exit 3"
    bridge = BridgeProcess(["sh", "-c", script], tmp_path, tmp_path / "driver", Egress(way_in(())))
    wait_until(lambda: bridge.failure, timeout_s=60, describe=lambda: "the script runs on")
    bridge.close()
    assert bridge.failure == "the bridge for clients ended with status 3: Exception: no memory"
    orderly = BridgeProcess(["sh", "-c", "echo BRIDGE 7001; cat"], tmp_path, tmp_path / "driver", Egress(way_in(())))
    assert orderly.failure == ""
    orderly.close()
    assert orderly.failure == ""


def test_each_bridge_takes_answers_at_a_place_that_no_other_has() -> None:
    assert Egress(way_in(())).endpoint == "here"
    with ExitStack() as held:
        free = [held.enter_context(socket.socket()) for _ in range(2)]
        for each in free:
            each.bind(("127.0.0.1", 0))
        places = ["{}:{}".format(*each.getsockname()) for each in free]
    first, second = Egress(way_in(places)), Egress(way_in(places))
    assert [first.endpoint, second.endpoint] == places
    with pytest.raises(EnvironmentFault, match=r"^2 programs are clients already: end one of them$"):
        Egress(way_in(places))
    first.give_back()
    again = Egress(way_in(places))
    assert again.endpoint == places[0]
    again.give_back()
    second.give_back()
    # A bridge may have outlived the process that had started it.
    host, _, port = places[0].rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as orphaned:
        orphaned.bind((host, int(port)))
        third = Egress(way_in(places))
        assert third.endpoint == places[1]
        third.give_back()


def test_places_for_answers_are_ports_of_the_cluster_that_nothing_else_uses() -> None:
    base_port = 20000
    assert len(egress_ports(base_port)) == 3
    assert not set(egress_ports(base_port)) & set(cluster_ports(base_port, 2))
    assert max(egress_ports(base_port)) < member_ports(base_port, 1)[0] - 1
