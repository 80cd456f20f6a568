"""`upheaval load --web`: the load is started and stopped through locust's page, and judged like any other."""

import json
import signal
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from support.load_runs import Command, LoadCommands, finish, require_agreement, running
from upheaval.waits import wait_until

PAGE_INTERVAL_S = 0.2
"""Users and page share a process: asked without a pause, the page takes the users' time."""


def page_of(process: Command) -> str:
    """Where the command says that its page is."""
    assert process.stderr is not None
    for line in process.stderr:
        if "http://" in line:
            return line[line.index("http://") :].split(";")[0].strip()
    raise AssertionError("the command ended without a page")


def get(address: str) -> Any:
    with urlopen(address, timeout=240) as answer:
        return json.load(answer)


def post(address: str, **fields: object) -> Any:
    with urlopen(address, urlencode(fields).encode(), timeout=240) as answer:
        return json.load(answer)


def wait_for_requests(page: str, count: int, users: int) -> None:
    """The page answers with what it knew up to two seconds ago; the number of users tells one load from another."""

    def is_counted() -> bool:
        told = get(f"{page}/stats/requests")
        return bool(told["user_count"] == users and told["stats"][-1]["num_requests"] >= count)

    wait_until(
        is_counted,
        timeout_s=240,
        describe=lambda: f"the page does not count {count} requests",
        interval_s=PAGE_INTERVAL_S,
    )


@pytest.mark.heavy
def test_a_load_is_started_twice_on_the_page_and_ended_by_ctrl_c(folder: Path, load: LoadCommands) -> None:
    process = load.start("--web", "--web-port", "0", "--users", "6", "--members", "1")
    page = page_of(process)
    with urlopen(page, timeout=240) as answer:
        text = answer.read()
    assert b"<title>Locust</title>" in text
    assert b'"extended_tabs": [{"key": "faults", "title": "Faults"}]' in text
    assert post(f"{page}/swarm", user_count=6, spawn_rate=6)["success"]
    wait_for_requests(page, 50, 6)
    assert get(f"{page}/stats/requests")["extended_stats"] == [{"key": "faults", "data": []}]
    assert post(f"{page}/stop")["success"]
    wait_until(
        lambda: get(f"{page}/stats/requests")["state"] == "stopped",
        timeout_s=240,
        describe=lambda: "it does not stop",
        interval_s=PAGE_INTERVAL_S,
    )
    first = get(f"{page}/stats/requests")["stats"][-1]["num_requests"]
    assert post(f"{page}/swarm", user_count=3, spawn_rate=3)["success"]
    wait_for_requests(page, 20, 3)
    process.send_signal(signal.SIGINT)
    result = finish(process, 0)
    # Both loads count, although the page counts from its last start.
    assert require_agreement(result) >= first + 20
    assert running(folder) == 0
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", int(page.rsplit(":", 1)[1])), timeout=5)


@pytest.mark.heavy
def test_a_load_ends_with_its_duration_from_the_first_start(folder: Path, load: LoadCommands) -> None:
    process = load.start("--web", "--web-port", "0", "--users", "20", "--duration", "10s", "--members", "1")
    page = page_of(process)
    assert post(f"{page}/swarm", user_count=20, spawn_rate=20)["success"]
    result = finish(process, 0)
    assert require_agreement(result) >= 100


@pytest.mark.heavy
def test_a_page_that_nobody_uses_ends_without_a_verdict(folder: Path, load: LoadCommands) -> None:
    process = load.start("--web", "--web-port", "0", "--members", "1")
    page_of(process)
    process.send_signal(signal.SIGINT)
    result = finish(process, 3)
    assert result["statistics"]["total"]["requests"] == 0
    assert running(folder) == 0


@pytest.mark.heavy
def test_users_end_when_their_command_is_killed(folder: Path, load: LoadCommands) -> None:
    process = load.start("--web", "--web-port", "0", "--users", "3", "--members", "1")
    page = page_of(process)
    assert post(f"{page}/swarm", user_count=3, spawn_rate=3)["success"]
    wait_for_requests(page, 10, 3)
    assert len(load.users()) == 1
    process.kill()
    wait_until(lambda: not load.users(), timeout_s=240, describe=lambda: "the users go on without their command")


def test_a_port_that_is_taken_is_one_line_and_nothing_is_made(folder: Path, load: LoadCommands) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = load.start("--web", "--web-port", str(port))
        output, errors = process.communicate(timeout=240)
    assert (process.returncode, output) == (2, "")
    assert len(errors.splitlines()) == 1
    assert f"port {port} cannot be had for the page" in errors
    assert not folder.exists()


def test_a_port_without_a_page_is_refused(folder: Path, load: LoadCommands) -> None:
    process = load.start("--web-port", "8089")
    _, errors = process.communicate(timeout=240)
    assert (process.returncode, len(errors.splitlines())) == (2, 1)
    assert not folder.exists()
