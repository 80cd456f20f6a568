"""compose/3-members-toxiproxy.yaml: three members behind Toxiproxy, with locust and Prometheus."""

import json
import time
import urllib.parse
from collections.abc import Iterator

import pytest

from support.built_images import require
from support.compose_runs import (
    Project,
    again,
    ask,
    docker,
    drive_by_page,
    kill_the_leader_between_two_writes,
    running,
)
from support.docker_runs import ENGINE_INTERVAL_S
from support.pages import page_blocks
from upheaval import images
from upheaval.runtimes.docker.engine import Client
from upheaval.waits import wait_until
from upheaval_node.client.driver import BlockingClient

LATENCY_S = 0.4


@pytest.fixture(scope="module")
def platform(tidy: Client) -> Iterator[Project]:
    """Three members with Toxiproxy, locust and Prometheus."""
    for image in (images.NODE, images.TOXIPROXY, images.LOAD, images.PROMETHEUS):
        require(tidy, image)
    with running(Project(tidy, "3-members-toxiproxy.yaml", 3)) as project:
        yield project


def test_a_killed_leader_loses_nothing_with_proxies(platform: Project) -> None:
    kill_the_leader_between_two_writes(platform)


def test_the_client_of_the_page_reaches_the_members(platform: Project) -> None:
    (block,) = [block for block in page_blocks("python") if "docker" in block.marks]
    text = block.block.text.replace("{19001 + 10 * n}", "{ports[n]}")
    assert "ports" in text
    exec(text, {"ports": platform.ports})
    with platform.client() as client:
        assert again(client, lambda: client.read("k")) == b"5"


def test_members_reach_each_other_only_through_the_proxy(platform: Project) -> None:
    script = """
import socket, sys
for host in sys.argv[1:]:
    try:
        socket.create_connection((host, 9002), 1).close()
        print(host, "reached")
    except OSError:
        print(host, "out of reach")
"""
    other = platform.container("member-1")
    address = docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", other).strip()
    command = ("exec", platform.container("member-0"), "python3", "-c", script, "member-1", address, "member-0")
    assert docker(*command).splitlines() == [
        "member-1 out of reach",
        f"{address} out of reach",
        "member-0 reached",
    ]


def test_a_toxic_on_the_links_of_the_leader_is_felt(platform: Project) -> None:
    slowed: dict[int, list[str]] = {}
    with platform.client() as client:
        wait_until(lambda: seconds_of_a_write(client) < LATENCY_S, timeout_s=240, describe=lambda: "slow as it is")
        times: list[float] = []
        while len(times) < 3:
            leader = platform.await_leader()
            if leader not in slowed:
                slowed[leader] = slow_log_links(platform, leader)
            seconds = seconds_of_a_write(client)
            # On a busy machine another member may lead meanwhile, whose links are fast.
            if platform.leader() == leader:
                times.append(seconds)
        assert min(times) >= LATENCY_S, times
        for link in [link for links in slowed.values() for link in links]:
            ask(platform.toxiproxy, f"{link}/slow", method="DELETE")
        wait_until(lambda: seconds_of_a_write(client) < LATENCY_S, timeout_s=240, describe=lambda: "still slow")


def slow_log_links(platform: Project, leader: int) -> list[str]:
    """Latency on the log's way from the leader, which dials: upstream. Returns the toxics' paths."""
    toxic = {
        "type": "latency",
        "name": "slow",
        "stream": "upstream",
        "attributes": {"latency": round(LATENCY_S * 1000)},
    }
    links = [f"/proxies/{leader}-to-{other}-log/toxics" for other in range(3) if other != leader]
    for link in links:
        ask(platform.toxiproxy, link, json.dumps(toxic).encode())
    return links


def seconds_of_a_write(client: BlockingClient) -> float:
    def write() -> float:
        begin = time.monotonic()
        client.write("timed", b"x")
        return time.monotonic() - begin

    return again(client, write)


def test_locust_is_started_from_its_page(platform: Project) -> None:
    platform.await_leader()
    drive_by_page(platform)


def test_locust_runs_without_a_page(platform: Project) -> None:
    platform.await_leader()
    arguments = ("--headless", "--users", "2", "--run-time", "20s", "--json")
    statistics = json.loads(platform.compose("run", "--rm", "-T", "locust", *arguments))
    assert sum(row["num_requests"] for row in statistics) > 0
    assert sum(row["num_failures"] for row in statistics) == 0


def test_prometheus_sees_every_member_and_the_proxy(platform: Project) -> None:
    def value(query: str) -> float:
        answer = ask(platform.prometheus, "/api/v1/query?" + urllib.parse.urlencode({"query": query}))
        return sum(float(each["value"][1]) for each in answer["data"]["result"])

    for query, expected in (
        ('up{job="members"}', 3),
        ('up{job="links"}', 1),
        ('upheaval_role{role="leader"}', 1),
    ):
        wait_until(
            lambda q=query, n=expected: value(q) == n,  # type: ignore[misc]
            timeout_s=240,
            describe=lambda q=query: f"{q}: {value(q)}",  # type: ignore[misc]
            interval_s=ENGINE_INTERVAL_S,
        )
    assert value('up{job="members"}') == 3
