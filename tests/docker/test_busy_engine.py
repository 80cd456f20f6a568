"""What others do in the engine at the same time: they end containers, and remove them. The engine's API is small here:
a test cannot hold a real engine up in the middle of a request.
"""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import docker
import pytest

from upheaval.cli.main import main
from upheaval.errors import UnknownOutcome
from upheaval.runtimes.docker import labels
from upheaval.runtimes.docker.node import DockerNode

OF_GONE = {**labels.labels_of_run("run-1", detached=False), "upheaval.harness-start": "1"}
FOREVER = 10**9


def refusal(status: int, why: str) -> docker.errors.APIError:
    return docker.errors.APIError(why, response=SimpleNamespace(status_code=status, reason="", url=""), explanation=why)


class Engine:
    """One whose container another process is removing, until it was asked for that so often; only then network and
    volume can be removed.
    """

    def __init__(self, busy: int, *, is_used: bool = False) -> None:
        self.api, self.busy, self.is_used, self.left = self, busy, is_used, ["container", "network", "volume"]

    def containers(self, **_: Any) -> list[dict[str, Any]]:
        return [{"Names": ["/member-0"], "Id": "1", "Labels": OF_GONE}]

    def networks(self, **_: Any) -> list[dict[str, Any]]:
        return [{"Name": "net", "Id": "2", "Labels": OF_GONE}]

    def volumes(self, **_: Any) -> dict[str, Any]:
        return {"Volumes": [{"Name": "files", "Labels": OF_GONE}]}

    def remove_container(self, _: str, **__: Any) -> None:
        if self.busy > 0:
            self.busy -= 1
            raise refusal(409, "removal of container 1 is already in progress")
        self.left.remove("container")
        raise docker.errors.NotFound("No such container: 1")

    def remove_network(self, _: str) -> None:
        if self.is_used or "container" in self.left:
            raise refusal(403, "error while removing network: network net has active endpoints")
        self.left.remove("network")

    def remove_volume(self, _: str, **__: Any) -> None:
        if self.is_used or "container" in self.left:
            raise refusal(409, "remove files: volume is in use - [1]")
        self.left.remove("volume")

    def close(self) -> None:
        pass


Remove = Callable[[Engine], int]


def removed(engine: Engine, timeout_s: float = labels.REMOVAL_TIMEOUT_S) -> int:
    return sum(not each.why for each in labels.remove_abandoned(engine, timeout_s))


@pytest.mark.parametrize("remove", [removed, partial(labels.remove_run, run_id="run-1")])
def test_networks_and_volumes_go_after_a_container_that_another_process_removes(remove: Remove) -> None:
    engine = Engine(busy=3)
    assert remove(engine) == 2
    assert engine.left == []


def test_a_start_leaves_what_is_in_use_and_an_end_says_so() -> None:
    engine = Engine(busy=0, is_used=True)
    left = labels.remove_abandoned(engine, timeout_s=0)
    assert [(each.kind, each.name) for each in left] == [("network", "net"), ("volume", "files")]
    assert "active endpoints" in left[0].why
    assert "volume is in use" in left[1].why
    assert engine.left == ["network", "volume"]
    assert removed(Engine(busy=FOREVER), timeout_s=0) == 0
    with pytest.raises(UnknownOutcome, match="removing container member-0: removal of container 1 is already in prog"):
        labels.remove_run(Engine(busy=FOREVER), "run-1", timeout_s=0)


def test_a_clean_up_names_what_the_engine_keeps_and_removes_the_rest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: str) -> None:
        raise refusal(500, "no such device")

    engine = Engine(busy=0)
    monkeypatch.setattr(engine, "remove_network", refuse)
    monkeypatch.setattr("upheaval.runtimes.docker.engine.connect", lambda: engine)
    assert main(["clean"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "removed volume files" in lines
    assert [line for line in lines if "network net" in line and line.startswith("left alone: network net: ")]
    assert "removed network net" not in lines
    assert engine.left == ["network"]


class Container:
    """One that runs, or that has ended since it was looked at."""

    def __init__(self, *, has_ended: bool) -> None:
        self.has_ended, self.waits = has_ended, 0
        self.attrs = {"State": {"Running": True}}

    def kill(self, signal: str) -> None:
        assert signal == "SIGKILL"
        if self.has_ended:
            raise refusal(409, "cannot kill container: 1: container 1 is not running")
        self.has_ended = True

    def wait(self, timeout: float) -> None:
        assert self.has_ended
        self.waits += 1


def test_all_components_are_killed_though_some_follow_the_first_by_themselves() -> None:
    containers = {name: Container(has_ended=name == "consensus") for name in ("archive", "consensus", "service")}
    client = SimpleNamespace(containers=SimpleNamespace(get=containers.__getitem__))
    names = {name: name for name in containers}
    DockerNode("member 0", client, names, lambda _: None, lambda _: None).kill()
    assert [(each.has_ended, each.waits) for each in containers.values()] == [(True, 1)] * 3
