"""Member processes from outside: their ends and what they leave. Clusters are tested in test_member_cluster."""

import json
import os
import select
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from unit.runtime.member_processes import SPLIT, Members, ended, wait_until
from upheaval_node.counters import CLUSTER_NODE_ROLE
from upheaval_node.files import layout
from upheaval_node.runtime.exit_status import ExitStatus
from upheaval_node.runtime.mark_lock import MarkLock, is_locked
from upheaval_node.runtime.shared_counters import create_cnc
from upheaval_node.runtime.siblings import SOCKET


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Members]:
    members = Members(tmp_path)
    yield members
    members.end()


@pytest.fixture
def split(tmp_path: Path) -> Iterator[Members]:
    members = Members(tmp_path, components=SPLIT)
    yield members
    members.end()


@pytest.mark.parametrize(
    ("content", "component", "text"),
    [
        ("{", "all", "is not valid JSON"),
        ("[]", "all", "holds no JSON object"),
        ('{"member_id": 0}', "all", "members is missing"),
        (None, "all", "cannot read"),
        ("same", "engine", "unknown component 'engine'"),
        ("same", "service-7", "this member has 1 services"),
        ("service", "all", "service 'no.module:Class': no module 'no' on the Python path"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(members: Members, content: str | None, component: str, text: str) -> None:
    path = members.config(0)
    if content is None:
        path.unlink()
    elif content == "service":
        path.write_text(json.dumps(json.loads(path.read_text()) | {"service": "no.module:Class"}))
    elif content != "same":
        path.write_text(content)
    status, errors = ended(members.start(0, component))
    assert status == ExitStatus.USAGE
    assert text in errors
    assert errors.count("\n") == 1


def test_an_address_in_use_is_one_line_and_status_3(members: Members) -> None:
    host, _, port = members.endpoints[0][2].rpartition(":")
    with socket.create_server((host, int(port))):
        status, errors = ended(members.start(0))
    assert status == ExitStatus.ADDRESS_UNAVAILABLE
    assert f"cannot listen on {host}:{port}: the address is in use by another process" in errors
    assert errors.count("\n") == 1


def test_a_metrics_port_in_use_is_one_line_and_status_3(members: Members) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        members.configure(0, metrics_port=port)
        status, errors = ended(members.start(0))
    assert status == ExitStatus.ADDRESS_UNAVAILABLE
    assert f"metrics endpoint: cannot listen on 127.0.0.1:{port}: the address is in use by another process" in errors
    assert errors.count("\n") == 1


def test_a_member_that_runs_already_is_left_alone(members: Members) -> None:
    first = members.start(0)
    members.wait_until_leader()
    status, errors = ended(members.start(0, "all"))
    assert status == ExitStatus.ALREADY_RUNNING
    assert "runs already" in errors
    assert first.poll() is None
    assert members.leader() == 0


def test_a_member_whose_mark_is_let_go_of_after_its_start_began_starts(members: Members) -> None:
    mark = members.path(0) / "archive" / "archive-mark.dat"
    lock = MarkLock(str(mark))
    process = members.start(0)
    fds = Path(f"/proc/{process.pid}/fd")
    # It closes others meanwhile, of which `resolve` says nothing.
    wait_until(lambda: any(fd.resolve() == mark.resolve() for fd in fds.iterdir()))
    lock.release()
    members.wait_until_leader()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_member_in_order(members: Members, number: signal.Signals) -> None:
    process = members.start(0)
    members.wait_until_leader()
    process.send_signal(number)
    assert ended(process) == (ExitStatus.OK, "")
    for path in ("archive/archive-mark.dat", "cluster/cluster-mark.dat", "cluster/cluster-mark-service-0.dat"):
        assert (members.path(0) / path).read_bytes()[16:24] == b"\xff" * 8, "activity is -1"
        assert not is_locked(str(members.path(0) / path))
    last = members.trace(0)[-1]
    assert (last["event"], last["status"]) == ("process-end", 0)
    assert isinstance(last["longest_stall_ns"], int)


def test_a_killed_member_starts_again_at_once_and_leads(members: Members) -> None:
    first = members.start(0)
    members.wait_until_leader()
    first.kill()
    first.communicate()
    members.start(0)
    members.wait_until_leader()
    starts = [line["pid"] for line in members.trace(0) if line["event"] == "process-start"]
    assert len(starts) == len(set(starts)) == 2


def test_an_idle_member_uses_next_to_no_processor_time(members: Members) -> None:
    process = members.start(0)
    members.wait_until_leader()

    def processor_ticks() -> int:
        fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = processor_ticks()
    with pytest.raises(AssertionError):
        wait_until(lambda: process.poll() is not None, patience_s=2.0)
    assert processor_ticks() - before <= 20, "more than a tenth of a processor for doing nothing"


@pytest.mark.parametrize("order", [SPLIT, SPLIT[::-1]])
def test_the_processes_of_a_split_member_start_in_any_order(split: Members, order: tuple[str, ...]) -> None:
    for component in order:
        split.start(0, component)
    split.wait_until_leader()
    assert split.counter(0, CLUSTER_NODE_ROLE) == 2


@pytest.mark.parametrize("victim", SPLIT)
def test_the_kill_of_one_component_ends_the_others_with_status_6(split: Members, victim: str) -> None:
    split.start_member(0)
    split.wait_until_leader()
    processes = dict(split.processes)
    processes.pop((0, victim)).kill()
    took = wait_until(lambda: all(process.poll() is not None for process in processes.values()))
    assert took < 30 + split.stalled_s(0), split.trace(0)[-8:]
    assert {ended(process)[0] for process in processes.values()} == {ExitStatus.COMPONENT_LOST}


def test_a_component_takes_no_part_before_the_archive_process_would_hear_of_its_death(
    split: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    split.path(0).mkdir()
    monkeypatch.chdir(split.path(0))
    cnc = create_cnc(layout.CNC, pid=os.getpid(), now_ms=0, is_shared=True)
    with socket.socket(socket.AF_UNIX) as driver, socket.socket(socket.AF_UNIX) as hub:
        driver.bind(layout.DRIVER_SOCKET)
        driver.listen()
        split.start(0, "service")
        with pytest.raises(AssertionError):
            wait_until(lambda: select.select([driver], [], [], 0)[0], patience_s=2.0)
        hub.bind(SOCKET)
        hub.listen()
        wait_until(lambda: select.select([driver], [], [], 0)[0])
        link, _ = hub.accept()
        with link:
            assert link.recv(100) == b"service-0\n"
    cnc.close()


@pytest.mark.parametrize("told", [*SPLIT, "every one"])
def test_a_signal_to_any_process_ends_a_split_member_in_order(split: Members, told: str) -> None:
    split.start_member(0)
    split.wait_until_leader()
    for (_, component), process in split.processes.items():
        if told in (component, "every one"):
            process.send_signal(signal.SIGTERM)
    took = wait_until(lambda: all(process.poll() is not None for process in split.processes.values()))
    assert took < 30 + split.stalled_s(0)
    assert [ended(process)[0] for process in split.processes.values()] == [ExitStatus.OK] * 3


def test_a_member_that_was_stopped_for_a_while_tells_how_long(members: Members) -> None:
    process = members.start(0)
    members.wait_until_leader()
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(AssertionError):
        wait_until(lambda: process.poll() is not None, patience_s=0.4)
    process.send_signal(signal.SIGCONT)

    wait_until(lambda: members.stalled_s(0) >= 0.3, describe=lambda: f"stalled for {members.stalled_s(0)} s")
    process.terminate()
    assert ended(process)[0] == ExitStatus.OK
    assert members.trace(0)[-1]["longest_stall_ns"] == pytest.approx(members.stalled_s(0) * 1e9)
