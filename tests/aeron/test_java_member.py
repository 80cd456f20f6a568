"""The member program of Aeron's own, alone in its cluster, and the bridge for its clients."""

import signal
import socket
import struct
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from support.java_members import (
    LEADER,
    PROVOKED,
    TIMEOUT_S,
    Bridge,
    BridgeSession,
    JavaMember,
    aeron_directory,
    cluster_of,
    program,
    properties_text,
)
from upheaval.checkers.evidence.recordings import snapshot_entries
from upheaval.records import MemberFolder
from upheaval_node.cluster.module_state import ControlToggle
from upheaval_node.counters import CLUSTER_NODE_ROLE, SNAPSHOT_COUNT
from upheaval_node.files import layout
from upheaval_node.files.mark_file import ACTIVATION_IN_PROGRESS, owner_of
from upheaval_node.protocol.constants import CONSENSUS_STREAM_ID
from upheaval_node.service.services.encoding import Operation, Request, Status
from upheaval_node.service.services.timers import FIRED
from upheaval_node.types import ClusterRole

VERSIONS: Final = ("1.51.0", pytest.param("1.47.4", marks=pytest.mark.nightly))
CLIENT_HEARTBEAT: Final = 11
"""The type of the counters in which Aeron's clients write the time."""
_PROVOCATIONS: Final = (
    (b"background", "doBackgroundWork", "IllegalStateException: background"),
    (b"checked", "onSessionMessage", "IOException: checked"),
)
"""What the service hears, and where it raises what."""
_SETUP: Final = b"\x05\x00"
_STREAM: Final = struct.Struct("<i")
_LONG: Final = struct.Struct("<q")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_member_goes_on_from_its_snapshot_and_ends_in_good_order(version: str, tmp_path: Path) -> None:
    with JavaMember(tmp_path / "member-0", version=version) as member, Bridge(tmp_path) as bridge:
        member.start_and_lead()
        assert member.counter(CLUSTER_NODE_ROLE) == ClusterRole.LEADER
        with bridge.session(member.ingress) as session:
            assert (session.leadership_term_id, session.leader) == (0, 0)
            for number in range(100):
                answer = session.ask(Request(number, Operation.WRITE, f"k{number % 7}", b"%d" % number))
                assert answer.status is Status.OK
            member.order(ControlToggle.SNAPSHOT)
            member.wait(lambda: member.counter(SNAPSHOT_COUNT) == 1, "no snapshot is taken")
            session.ask(Request(100, Operation.APPEND, "list", b"after"))
        assert member.stop() == 0, member.last_lines()

        member.start_and_lead()
        with bridge.session(member.ingress) as session:
            assert session.leadership_term_id == 1
            assert session.ask(Request(101, Operation.READ, "k0")).value == b"98"
            assert session.ask(Request(102, Operation.READ_LIST, "list")).values == (b"after",)
        assert member.stop() == 0, member.last_lines()
        assert bridge.end() == 0
        assert_told(member)
        assert (member.folder / "out").read_bytes() == b""


def assert_told(member: JavaMember) -> None:
    """What the trace has of two orderly lives of one member."""
    trace = member.trace()
    starts = [each for each in trace if each["event"] == "process-start"]
    assert [(each["run"], each["component"], each["version"]) for each in starts] == [
        ("5eed", "all", member.version)
    ] * 2
    assert len({each["pid"] for each in trace}) == 2
    ends = [(each["status"], each["reason"]) for each in trace if each["event"] == "process-end"]
    assert ends == [(0, "SIGTERM")] * 2
    assert trace[-1]["event"] == "process-end"
    terms = [each for each in trace if each["event"] == "leadership_term"]
    assert [(each["leadership_term_id"], each["leader_member_id"], each["source"]) for each in terms] == [
        (0, 0, "log"),
        (1, 0, "log"),
    ]
    states = [each["state"] for each in trace if each["event"] == "election_state"]
    assert states.count("INIT") == states.count("LEADER_READY") == states.count("CLOSED") == 2
    assert [(each["old"], each["new"]) for each in trace if each["event"] == "role"] == [("FOLLOWER", "LEADER")] * 2
    module = [each["new"] for each in trace if each["event"] == "module_state"]
    assert module == ["ACTIVE", "SNAPSHOT", "ACTIVE", "CLOSED", "ACTIVE", "CLOSED"]
    times = [each["ts"] for each in trace]
    assert times == sorted(times)
    snapshots = snapshot_entries(member.folder / "cluster" / "recording.log")
    assert len(snapshots) == 2, snapshots


def test_a_cluster_that_is_told_to_shut_down_says_where_it_ended(tmp_path: Path) -> None:
    with JavaMember(tmp_path / "member-0", service="timers,ledger") as member:
        member.start_and_lead()
        member.order(ControlToggle.SHUTDOWN)
        assert member.ended() == 0, member.last_lines()
        end = member.last("cluster-end")
        told = [each for each in member.trace() if each["event"] == "service-terminate"]
        places = sorted((each["service_id"], each["log_position"]) for each in told)
        assert places == [(0, end["log_position"]), (1, end["log_position"])]
        assert end["log_position"] > 0
        assert (end["leadership_term_id"], end["requested_term_id"], end["services"]) == (0, 0, 2)
        assert member.last("process-end")["status"] == 0
        snapshots = snapshot_entries(member.folder / "cluster" / "recording.log")
        assert {position for _, position, _ in snapshots} == {end["log_position"]}


def test_timers_fire_on_a_real_member(tmp_path: Path) -> None:
    with JavaMember(tmp_path / "member-0", service="timers") as member, Bridge(tmp_path) as bridge:
        member.start_and_lead()
        with bridge.session(member.ingress) as session:
            session.ask(Request(1, Operation.SCHEDULE_TIMER, "group", _LONG.pack(20)))
            session.ask(Request(2, Operation.SCHEDULE_TIMER, "group", _LONG.pack(3_600_000)))
            assert session.ask(Request(3, Operation.CANCEL_TIMER, "", _LONG.pack(2))).status is Status.OK
            ids = iter(range(4, 10_000))

            def fired() -> bool:
                return bool(session.ask(Request(next(ids), Operation.READ_TIMERS, "group")).values)

            member.wait(fired, "the timer does not fire")
            values = session.ask(Request(10_000, Operation.READ_TIMERS, "group")).values
            assert values is not None
            [(timer_id, deadline, fired_at, count)] = [FIRED.unpack(value) for value in values]
            assert (timer_id, count) == (1, 1)
            assert fired_at >= deadline


def test_what_a_service_raises_is_traced_and_the_log_goes_on(tmp_path: Path) -> None:
    """The balances of a thousand accounts with long names fit into no answer."""
    with JavaMember(tmp_path / "member-0", service="ledger") as member, Bridge(tmp_path) as bridge:
        member.start_and_lead()
        with bridge.session(member.ingress) as session:
            for number in range(520):
                name = f"{number:04}".ljust(1020, "x")
                request = Request(number, Operation.TRANSFER, f"{name}-a", _LONG.pack(1), f"{name}-b".encode())
                assert session.ask(request).status is Status.OK
            for number in range(3):
                session.tell(b"O", b"".join((_LONG.pack(1000 + number), b"\x0b\x01", bytes(2), b"\xff" * 8)))
            assert session.ask(Request(2000, Operation.TRANSFER, "a", _LONG.pack(1), b"b")).status is Status.OK
        raised = [each for each in member.trace() if each["event"] == "service-raised"]
        assert [each["count"] for each in raised] == [1, 2]
        assert {(each["service_id"], each["callback"]) for each in raised} == {(0, "onSessionMessage")}
        assert raised[0]["error"].startswith("IllegalStateException: response of ")
        assert raised[0]["where"].startswith("Response.java:")
        assert "upheaval.services.Response.encode" in raised[0]["traceback"]
        assert raised[1]["traceback"] is None
        assert raised[0]["log_position"] > 0


def test_whatever_a_service_raises_is_traced_once_also_in_a_thread_that_is_interrupted(tmp_path: Path) -> None:
    """The container ends by an interrupt, and with it the member; how, the trace still has."""
    with JavaMember(tmp_path / "member-0", service=PROVOKED) as member, Bridge(tmp_path) as bridge:
        member.start_and_lead()
        with bridge.session(member.ingress) as session:
            for count, (message, callback, error) in enumerate(_PROVOCATIONS, start=1):
                session.tell(b"O", message)
                member.wait(lambda n=count: member.count("service-raised") >= n, "nothing is traced")
                raised = member.last("service-raised")
                assert (raised["callback"], raised["error"]) == (callback, error)
                session.tell(b"O", b"still here")
                assert session.hear() == (b"R", b"still here")
                assert member.count("service-raised") == count
            assert member.count("error") == 0
            session.tell(b"O", b"interrupted")
            assert member.ended() == 7, member.last_lines()
        assert member.last("service-raised")["error"] == "IllegalStateException: interrupted"
        assert member.last("process-end")["status"] == 7


def test_a_member_that_cannot_start_says_why_and_the_running_one_goes_on(tmp_path: Path) -> None:
    with JavaMember(tmp_path / "member-0") as member, JavaMember(tmp_path / "second") as second:
        member.start_and_lead()
        second.properties["folder"] = str(member.folder)
        second.start()
        assert second.ended() == 7, second.last_lines()
        end = member.last("process-end")
        assert end["status"] == 7
        assert second.process is not None
        assert end["pid"] == second.process.pid
        assert end["reason"].startswith("start: ")
        assert member.process is not None
        assert member.process.poll() is None
        assert member.stop() == 0


def test_a_member_that_the_mark_of_its_service_refuses_says_so(tmp_path: Path) -> None:
    """Its module runs by then, and ends because of it (issue 2148 of Aeron)."""
    with JavaMember(tmp_path / "member-0") as member:
        member.start_and_lead()
        assert member.stop() == 0, member.last_lines()
        mark = member.folder / layout.CLUSTER_DIRECTORY / "cluster-mark-service-0.dat"
        content = bytearray(mark.read_bytes())
        content[16:24] = _LONG.pack(ACTIVATION_IN_PROGRESS)
        assert owner_of(bytes(content)).activity_timestamp_ms == ACTIVATION_IN_PROGRESS
        mark.write_bytes(content)
        member.start()
        assert member.ended() == 7, member.last_lines()
        assert "active mark file detected" in member.last("process-end")["reason"]
        assert member.last("process-end")["reason"].startswith("start: ")


def test_a_member_whose_service_cannot_read_its_snapshot_ends(tmp_path: Path) -> None:
    with JavaMember(tmp_path / "member-0", service="timers") as member, Bridge(tmp_path) as bridge:
        member.start_and_lead()
        with bridge.session(member.ingress) as session:
            session.ask(Request(1, Operation.SCHEDULE_TIMER, "group", _LONG.pack(3_600_000)))
            member.order(ControlToggle.SNAPSHOT)
            member.wait(lambda: member.counter(SNAPSHOT_COUNT) == 1, "no snapshot is taken")
        assert member.stop() == 0, member.last_lines()
        member.properties["service"] = "ledger"
        member.start()
        assert member.ended() == 7, member.last_lines()
        raised = member.last("service-raised")
        assert raised["callback"] == "onStart"
        assert "is not one of a ledger" in raised["error"]
        # The service says why; its module, which misses it, may be heard first.
        assert member.last("process-end")["reason"].startswith(("service-0: ", "module: "))


def test_a_member_whose_port_is_taken_ends_and_says_so(tmp_path: Path) -> None:
    with (
        JavaMember(tmp_path / "member-0") as member,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
    ):
        host, _, port = member.endpoints[1].partition(":")
        other.bind((host, int(port)))
        member.start()
        assert member.ended() == 7, member.last_lines()
        assert "in use" in member.last("process-end")["reason"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_member_dials_what_it_is_told_for_an_endpoint_of_another(version: str, tmp_path: Path) -> None:
    with (
        JavaMember(tmp_path / "member-0", version=version) as member,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as proxy,
    ):
        proxy.bind(("127.0.0.1", 0))
        proxy.settimeout(TIMEOUT_S)
        other = [f"127.0.0.1:{number}" for number in range(1, 6)]
        member.properties["members"] += f"|1,{','.join(other)}"
        member.properties[f"name.{other[1].replace(':', '=')}"] = f"127.0.0.1:{proxy.getsockname()[1]}"
        member.start()
        datagram = proxy.recv(65536)
        assert datagram[6:8] == _SETUP, datagram
        assert _STREAM.unpack_from(datagram, 16) == (CONSENSUS_STREAM_ID,)
        assert member.stop() == 0, member.last_lines()


@pytest.mark.parametrize(
    ("how", "status"),
    [("terminated", "OK"), ("failed", "TERMINATED"), ("lost", "TERMINATED"), ("closed", "TERMINATED")],
)
def test_a_service_that_loses_its_module_does_not_end_in_good_order(how: str, status: str, tmp_path: Path) -> None:
    command = program("ServiceEnd", str(tmp_path), how, tests=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    ended_as, _, reason = done.stdout.partition(" ")
    assert ended_as == status
    assert reason.startswith("service-0: ")


@pytest.mark.parametrize(
    ("state", "status"), [("TERMINATING", "OK"), ("CLOSED", "TERMINATED"), ("ACTIVE", "TERMINATED")]
)
def test_a_module_that_closes_within_a_cycle_ends_in_good_order_if_it_was_terminating(
    state: str, status: str, tmp_path: Path
) -> None:
    command = program("EndBetweenCycles", str(tmp_path), str(aeron_directory(tmp_path)), state, tests=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    assert done.stdout.splitlines() == [status]


def test_what_a_resolver_of_the_users_throws_is_not_wrapped() -> None:
    command = program("RaisingResolver", tests=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    thrown = "java.lang.UnsupportedOperationException: "
    assert done.stdout.splitlines() == [f"{thrown}{name}" for name in ("lookup", "resolve", "roleName")]


@pytest.mark.parametrize(
    ("version", "called"),
    [
        ("1.49.3", ["doWork", "init", "init", "lookup", "name", "resolve"]),
        ("1.51.0", ["doWork", "init", "lookup", "name", "onClose", "onStart", "resolve", "roleName"]),
    ],
)
def test_a_resolver_of_the_users_is_called_as_before(version: str, called: list[str]) -> None:
    command = program("OwnResolver", version=version, tests=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    assert done.stdout.split() == called


def test_contexts_that_are_launched_once_more_are_traced_once(tmp_path: Path) -> None:
    with JavaMember(tmp_path / "member-0") as member:
        member.folder.mkdir()
        file = member.folder / "member.properties"
        file.write_text(properties_text(member.properties), encoding="utf-8")
        command = program("PreparedTwice", str(file), tests=True)
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
        assert done.stdout.split() == ["error", "hook"]
        assert [member.count(event) for event in ("error", "service-terminate", "process-end")] == [1, 1, 1]


def test_threads_that_look_at_once_whether_a_component_runs_do_not_raise(tmp_path: Path) -> None:
    command = program("SiblingsAtOnce", str(tmp_path), tests=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    assert done.stdout.split() == ["false"] * 4


def test_a_loop_that_idles_for_long_does_not_stall(tmp_path: Path) -> None:
    command = program("QuietIdle", str(tmp_path), tests=True)
    subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    stalls = list(MemberFolder(tmp_path, 0).read_trace())
    assert 1 <= len(stalls) < 10, stalls


def test_a_member_that_starves_ends_itself_and_says_why(tmp_path: Path) -> None:
    with JavaMember(tmp_path / "member-0") as member:
        member.start_and_lead()
        assert member.process is not None
        member.process.send_signal(signal.SIGSTOP)
        member.wait(lambda: time.time() * 1000 - member.counter(CLIENT_HEARTBEAT) > 11_000, "it does not stand still")
        member.process.send_signal(signal.SIGCONT)
        assert member.ended() == 7, member.last_lines()
        assert max(line["stall_ns"] for line in member.trace() if line["event"] == "loop-stall") > 10_000_000_000
        assert "service interval exceeded" in member.last("process-end")["reason"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sync.level": None}, "member: missing property 'sync.level'"),
        ({"synclevel": "1"}, "member: unknown property 'synclevel'"),
        ({"max.sessions": "many"}, "member: property 'max.sessions': expected a number, got 'many'"),
        (
            {"service": "echo"},
            "member: unknown service 'echo': use ledger, tally, timers, workbench, or a class on the class path",
        ),
        (
            {"service": "java.lang.String"},
            "member: service 'java.lang.String': expected an implementation of ClusteredService",
        ),
        (
            {"service": "upheaval.HostedService"},
            "member: service 'upheaval.HostedService': expected a public class and constructor without parameters",
        ),
        ({"member.id": "3"}, "member: property 'members' has no member 3"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused_in_one_line(
    changes: dict[str, str | None], said: str, tmp_path: Path
) -> None:
    properties = JavaMember(tmp_path / "member-0").properties | changes
    file = tmp_path / "member.properties"
    file.write_text(properties_text({key: value for key, value in properties.items() if value is not None}))
    done = subprocess.run(program("Member", str(file)), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{said}\n")
    assert not (tmp_path / "member-0").exists()


def test_a_session_goes_on_with_the_new_leader(tmp_path: Path) -> None:
    with ExitStack() as open_members, Bridge(tmp_path) as bridge:
        members = [open_members.enter_context(member) for member in cluster_of(tmp_path, 3)]
        for member in members:
            member.start()
        leader = leader_of(members)
        with bridge.session(leader.ingress) as session:
            assert session.leader == leader.id
            assert session.ask(Request(1, Operation.WRITE, "k", b"kept")).status is Status.OK
            assert leader.stop() == 0, leader.last_lines()
            rest = [member for member in members if member is not leader]
            successor = leader_of(rest)
            kind, body = session.hear()
            assert kind == b"L", (kind, body)
            term, leader_id, session_id = LEADER.unpack(body)
            assert term > session.leadership_term_id
            assert (leader_id, session_id) == (successor.id, session.session_id)
            assert session.ask(Request(2, Operation.READ, "k")).value == b"kept"
        for member in rest:
            assert_follows(member, [leader.id, successor.id])
            assert "WARN ClusterEvent" in {each["kind"] for each in member.trace() if each["event"] == "error"}
        assert [member.stop() for member in rest] == [0, 0]


def assert_follows(member: JavaMember, leaders: list[int]) -> None:
    """The log tells it of these leaders, one after the other."""

    def told() -> list[int]:
        return [each["leader_member_id"] for each in member.trace() if each["event"] == "leadership_term"]

    member.wait(lambda: len(told()) >= len(leaders), "the log does not tell of the leaders")
    assert told() == leaders


def leader_of(members: list[JavaMember]) -> JavaMember:
    members[0].wait(lambda: any(member.leads for member in members), "nobody leads")
    return next(member for member in members if member.leads)


def test_a_bridge_gives_back_what_no_cluster_takes(tmp_path: Path) -> None:
    with JavaMember(tmp_path / "member-0") as member, Bridge(tmp_path) as bridge:
        member.start_and_lead()
        with bridge.session(member.ingress) as session, bridge.session(member.ingress) as other:
            assert session.session_id != other.session_id
            session.tell(b"X")
            assert session.hear() == (b"D", b"closed by the client")
            session.tell(b"O", b"first")
            session.tell(b"O", b"second")
            assert session.hear() == (b"N", _LONG.pack(1))
            assert session.hear() == (b"N", _LONG.pack(2))
            other.tell(b"O", bytes(1 << 20))
            kind, text = other.hear()
            assert kind == b"E"
            assert b"max" in text
            assert other.hear() == (b"N", _LONG.pack(1))
            assert other.ask(Request(5, Operation.ECHO, "", b"still here")).value == b"still here"
            other.tell(b"O", bytes(1 << 20))
            assert other.hear()[0] == b"E"
            assert other.hear() == (b"N", _LONG.pack(3))
            other.tell(b"?")
            assert other.hear() == (b"", b"")
        lost = BridgeSession(bridge.port)
        lost.tell(b"C", b"nonsense")
        assert lost.hear()[0] == b"D"
        lost.close()
        assert bridge.end() == 0
        assert not bridge.aeron.exists()


def test_an_exception_of_one_client_ends_its_session_alone(tmp_path: Path) -> None:
    with JavaMember(tmp_path / "member-0") as member, Bridge(tmp_path, provoked=True) as bridge:
        member.start_and_lead()
        with bridge.session(member.ingress) as other:
            raised = {
                "offer": "java.lang.IllegalStateException: offer",
                "poll": "java.lang.IllegalStateException: poll",
                "deep": "java.lang.StackOverflowError",
            }
            for number, (where, why) in enumerate(raised.items()):
                with bridge.session(member.ingress) as session:
                    session.tell(b"O", where.encode())
                    assert session.hear() == (b"D", why.encode())
                    session.tell(b"O", b"after")
                    assert session.hear() == (b"N", _LONG.pack(2))
                    assert other.ask(Request(number, Operation.ECHO, "", b"still here")).value == b"still here"
            other.tell(b"O", b"refuse")
            assert [other.hear(), other.hear()] == [
                (b"E", b"java.lang.IllegalArgumentException"),
                (b"N", _LONG.pack(len(raised) + 1)),
            ]
        assert bridge.end() == 0


def test_a_bridge_names_why_there_is_no_client_and_goes_on(tmp_path: Path) -> None:
    with Bridge(tmp_path, provoked=True) as bridge:
        for endpoints, why in {
            "missing": b"java.lang.NoClassDefFoundError: desk/Client",
            "null": b"there is no client: connect returned null",
        }.items():
            with BridgeSession(bridge.port) as session:
                assert session.connect(endpoints) == (b"D", why)
        assert bridge.end() == 0
