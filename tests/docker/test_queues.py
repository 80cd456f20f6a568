"""Proxies of datagrams that the kernel hands over: each toxic, seen by the sender and by the kernel's own counts."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from support import queue_script
from support.built_images import running
from upheaval import images
from upheaval.runtimes.docker.engine import Client
from upheaval_chaos import queue_agent

SCRIPT: Final = Path(queue_script.__file__).read_text(encoding="utf-8")
EACH: Final = list(range(queue_script.COUNT))
THROTTLED_S: Final = queue_script.COUNT * queue_script.SIZE / 20_000


@pytest.fixture(scope="module")
def seen(engine: Client, link_images: None) -> dict[str, Any]:
    """What the script prints, from a container with no network but its own."""
    agent = ["python3", "-m", queue_agent.__name__, "127.0.0.1", "8474", "1"]
    rights = {"cap_drop": ["ALL"], "cap_add": ["NET_ADMIN", "NET_RAW"], "read_only": True, "tmpfs": {"/run": ""}}
    with running(engine, images.NETFAULT.tag, agent, network_mode="none", init=True, **rights) as helper:
        done = helper.exec_run(["python3", "-c", SCRIPT])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.output)
    assert found.keys() == queue_script.TOXICS.keys()
    return found


@pytest.mark.parametrize("name", ["none", "setups cut"])
def test_what_no_toxic_is_about_passes_in_order(seen: dict[str, Any], name: str) -> None:
    assert (seen[name]["came"], seen[name]["counted"]) == (EACH, len(EACH))


@pytest.mark.parametrize(("name", "counted"), [("cut", 0), ("data cut", 0), ("answers cut", len(EACH))])
def test_a_cut_lets_nothing_through_on_its_side(seen: dict[str, Any], name: str, counted: int) -> None:
    assert (seen[name]["came"], seen[name]["counted"]) == ([], counted)


def test_a_share_is_dropped(seen: dict[str, Any]) -> None:
    came = seen["half dropped"]["came"]
    assert 0 < len(came) < len(EACH)
    assert seen["half dropped"]["counted"] == len(came)
    assert came == sorted(came)


@pytest.mark.parametrize("name", ["late", "answers late"])
def test_a_latency_holds_all_of_them_up(seen: dict[str, Any], name: str) -> None:
    assert sorted(seen[name]["came"]) == EACH
    assert seen[name]["first"] >= 0.1


def test_a_jitter_brings_them_out_of_order(seen: dict[str, Any]) -> None:
    came = seen["in disorder"]["came"]
    assert sorted(came) == EACH != came


@pytest.mark.parametrize(("name", "counted"), [("twice", 2 * len(EACH)), ("answers twice", len(EACH))])
def test_a_duplicate_comes_twice(seen: dict[str, Any], name: str, counted: int) -> None:
    assert sorted(seen[name]["came"]) == sorted(2 * EACH)
    assert seen[name]["counted"] == counted


@pytest.mark.parametrize(("name", "kind"), [("omitted", 0), ("other messages omitted", 1)])
def test_padding_comes_in_the_place_of_a_message(seen: dict[str, Any], name: str, kind: int) -> None:
    assert (seen[name]["types"], sorted(seen[name]["came"])) == ([kind], EACH)


def test_a_limit_takes_the_time_that_the_bytes_need(seen: dict[str, Any]) -> None:
    assert sorted(seen["throttled"]["came"]) == EACH
    assert seen["throttled"]["took"] >= THROTTLED_S
