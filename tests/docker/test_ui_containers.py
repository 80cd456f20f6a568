"""What the page of `upheaval ui` does to members in containers, ours and Aeron's, from their start to their end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.browser import Browser
from support.docker_runs import left_of
from support.live_page import click, cut_and_heal, end_cluster, kill_and_heal, open_page, start_load
from support.page_servers import ask, serving
from upheaval import images
from upheaval.records import OWN_SYSTEM, RunFolder
from upheaval.runtimes import cluster_file
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client
from upheaval.ui.server import PageServer
from upheaval.waits import wait_until

pytestmark = pytest.mark.nightly
LONG_S = 300
SYSTEMS = {OWN_SYSTEM: images.NODE, "aeron:1.49.3": images.image_named("aeron", "1.49.3")}


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest, engine: Client, node_image: str, link_images: None) -> str:
    image = SYSTEMS[request.param]
    if not images.image_state(engine, image).is_current:
        images.build(engine, image, base=None, offline=True, say=print)
    return str(request.param)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PageServer]:
    with serving(PageServer(tmp_path)) as server:
        yield server


def test_containers_are_started_loaded_broken_healed_and_ended(server: PageServer, system: str, engine: Client) -> None:
    def act(action: str, **fields: object) -> Any:
        answer = ask(server, f"/api/{action}", method="POST", body=fields)
        assert answer.status == 200, (action, answer.text)
        return answer.json

    def state() -> Any:
        return ask(server, "/api/live/shop/state").json

    def wait_for_requests(more: int) -> None:
        wanted = state()["load"]["requests"] + more
        wait_until(lambda: state()["load"]["requests"] >= wanted, timeout_s=LONG_S, describe=lambda: f"{state()}")

    def fault(number: int) -> Any:
        """Of the next look: a state may be half a second old."""
        wait_until(lambda: len(state()["faults"]) > number, timeout_s=LONG_S, describe=lambda: f"{state()}")
        return state()["faults"][number]

    act("clusters", name="shop", system=system, runtime="docker")
    run = RunFolder(server.folder / "shop")
    run_id = cluster_file.load(run.path).run_id
    start_ns = state()["start_ns"]
    act("live/shop/load-start", users=2, rate=10)
    wait_for_requests(20)
    # By its id: on a busy machine there may be no leader at this moment.
    act("live/shop/inject", statement="kill member-0")
    killed = fault(0)
    assert killed["evidence"].startswith("gone: ")
    assert state()["start_ns"] == start_ns < killed["begin_ns"] < state()["ns"]
    wait_for_requests(20)
    act("live/shop/heal-all")
    act("live/shop/inject", statement="blackhole member-0 -> member-1")
    assert {link[:4] for link in fault(1)["links"]} == {"0->1"}
    act("live/shop/heal-all")
    act("live/shop/load-stop")
    assert "inject kill-1 kill " in act("live/shop/scenario")["text"]
    act("live/shop/end")
    assert left_of(engine, run_id) == []
    assert all(fault.heal_end_ns is not None for fault in run.read_faults())
    assert ask(server, "/runs/shop").status == 200


def test_a_browser_breaks_and_heals_containers(server: PageServer, system: str, engine: Client, tmp_path: Path) -> None:
    answer = ask(server, "/api/clusters", method="POST", body={"name": "shop", "system": system, "runtime": "docker"})
    assert answer.status == 200, answer.text
    with DockerCluster.open(server.folder / "shop") as cluster, Browser(tmp_path / "profile") as browser:
        wait_for = open_page(browser, server)
        start_load(browser, wait_for, server)
        kill_and_heal(browser, wait_for, cluster, cluster.wait_until_leader(LONG_S))
        # Seconds of the run, which began before the browser came.
        assert browser.value("timeLine.run.length") > 1e9
        cut_and_heal(browser, wait_for)
        click(browser, "[data-do=rerun]")
        wait_for("document.getElementById('beside') !== null")
        end_cluster(browser, wait_for)
        assert browser.complaints == []
    assert all(fault.is_proved for fault in RunFolder(server.folder / "shop").read_faults())
