"""What the process runtime asks of the machine: processes by run id, free ports, waiting."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from upheaval.errors import EnvironmentFault, UnknownOutcome, UsageError
from upheaval.runtimes import ports
from upheaval.system.process_table import (
    COMPONENT_VARIABLE,
    MEMBER_VARIABLE,
    RUN_ID_VARIABLE,
    FoundProcess,
    process_of,
    processes_of,
    send_signal,
    wait_until_gone,
)
from upheaval.waits import wait_until

# Takes a lock, and so much memory that its end takes a while.
HOLDS_A_LOCK = """
import fcntl, os, signal, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
memory = b"x" * 200_000_000
print("up", flush=True)
signal.pause()
"""
WAITS_FOR_EVER = "import signal; print('up', flush=True); signal.pause()"


@pytest.fixture
def run_id() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def process(run_id: str) -> Iterator["subprocess.Popen[bytes]"]:
    environment = {**os.environ, RUN_ID_VARIABLE: run_id, MEMBER_VARIABLE: "2", COMPONENT_VARIABLE: "archive"}
    command = [sys.executable, "-c", WAITS_FOR_EVER]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"up\n"
        yield started
        started.kill()


def test_a_process_is_found_by_the_run_id_in_its_environment(process: "subprocess.Popen[bytes]", run_id: str) -> None:
    assert processes_of(run_id) == [FoundProcess(process.pid, 2, "archive")]
    assert process_of(process.pid, "another run") is None
    assert processes_of("another run") == []


def test_a_killed_process_is_gone_even_before_its_parent_has_asked(
    process: "subprocess.Popen[bytes]", run_id: str
) -> None:
    found = processes_of(run_id)
    send_signal(found, signal.SIGKILL)
    wait_until_gone(found, run_id)
    assert processes_of(run_id) == []
    send_signal(found, signal.SIGKILL)


def test_a_process_that_is_gone_has_let_go_of_its_locks(run_id: str, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDS_A_LOCK, str(path)]
    environment = {**os.environ, RUN_ID_VARIABLE: run_id}
    for _ in range(5):
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as started:
            assert started.stdout is not None
            assert started.stdout.readline() == b"up\n"
            found = processes_of(run_id)
            send_signal(found, signal.SIGKILL)
            wait_until_gone(found, run_id)
            with path.open() as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_process_that_does_not_end_is_named(process: "subprocess.Popen[bytes]", run_id: str) -> None:
    with pytest.raises(UnknownOutcome, match=str(process.pid)):
        wait_until_gone(processes_of(run_id), run_id, timeout_s=0.05)


def test_a_wait_gives_the_first_result_and_says_what_did_not_come() -> None:
    results = iter([None, False, 7])
    assert wait_until(lambda: next(results), timeout_s=5, describe=lambda: "never") == 7
    with pytest.raises(UnknownOutcome, match=r"no leader \(waited 0.02 s\)"):
        wait_until(lambda: None, timeout_s=0.02, describe=lambda: "no leader")


def test_a_wait_ends_early_when_its_condition_raises() -> None:
    def broken() -> bool:
        raise EnvironmentFault("member 1 ended")

    with pytest.raises(EnvironmentFault, match="member 1 ended"):
        wait_until(broken, timeout_s=60, describe=lambda: "no leader")


def test_a_chosen_base_port_is_free_for_every_member_and_no_port_is_given_twice() -> None:
    base_port = ports.choose_base_port(5)
    found = ports.cluster_ports(base_port, 5)
    assert len(set(found)) == 5 * (ports.PORTS_USED + 1)  # and one for metrics
    assert ports.first_used(found) is None


def test_ports_that_another_process_has_chosen_are_not_chosen_though_nothing_listens_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choose = "import sys; from upheaval.runtimes import ports; print(ports.choose_base_port(3), flush=True)"
    command = [sys.executable, "-c", f"{choose}; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        chosen = int(other.stdout.readline())
        monkeypatch.setattr(ports, "_LOWEST", chosen)
        monkeypatch.setattr(ports, "_HIGHEST", chosen + 3 * ports.PORTS_A_MEMBER + 1)
        assert ports.first_used(ports.cluster_ports(chosen, 3)) is None
        with pytest.raises(EnvironmentFault, match="found no 30 free ports"):
            ports.choose_base_port(3)
        other.communicate()
    assert ports.choose_base_port(3) == chosen


def test_a_process_that_has_chosen_ports_ends_without_a_word() -> None:
    command = [sys.executable, "-W", "default", "-c", "from upheaval.runtimes import ports; ports.choose_base_port(3)"]
    assert subprocess.run(command, capture_output=True, check=True).stderr == b""


def test_a_process_that_starts_many_clusters_in_turn_does_not_run_out_of_ports() -> None:
    assert len({ports.choose_base_port(9) for _ in range(200)}) > 1


def test_a_port_that_somebody_listens_on_is_not_free_and_is_named() -> None:
    with socket.create_server((ports.HOST, 0)) as server:
        port = server.getsockname()[1]
        assert not ports.is_free(port)
        with pytest.raises(EnvironmentFault, match=f"port {port} is in use"):
            ports.require_free(port, 1)


@pytest.mark.parametrize("base_port", [0, 1023, 65535, 70000])
def test_an_impossible_base_port_is_refused(base_port: int) -> None:
    with pytest.raises(UsageError, match="does not leave room"):
        ports.require_free(base_port, 3)


def test_draws_that_fail_release_no_claim_of_a_running_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_claims", type(ports._claims)())
    monkeypatch.setattr(ports, "_ATTEMPTS", 40)
    base_port = ports.choose_base_port(1)
    claims = list(ports._claims)
    try:
        with socket.socket() as used:
            used.bind((ports.HOST, 0))
            used.listen()
            busy = used.getsockname()[1]
            monkeypatch.setattr(ports, "cluster_ports", lambda _base_port, _members: [busy])
            with pytest.raises(EnvironmentFault, match="found no 10 free ports"):
                ports.choose_base_port(1)
        assert list(ports._claims) == claims
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((ports.HOST, base_port + ports.PORTS_A_MEMBER - 1))
    finally:
        for claim in ports._claims:
            claim.close()
