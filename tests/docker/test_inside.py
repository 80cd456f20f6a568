"""Commands in containers whose output gets lost: a command that prints nothing the first time stands for the engine."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from support.built_images import running
from upheaval.errors import UnknownOutcome
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client
from upheaval.runtimes.docker.inside import ContainerEnded, run_inside, run_silent
from upheaval.system import ClusterSpec, UpheavalNode

LOST_ONCE = "test -e /tmp/{mark} || { touch /tmp/{mark}; exit 0; }; "


def lost_once(mark: str, command: str) -> tuple[str, ...]:
    return ("sh", "-c", LOST_ONCE.replace("{mark}", mark) + command)


class Forgetful(UpheavalNode):
    """A node whose first answer to each question gets lost."""

    status_command: Sequence[str] = lost_once("status", "exec " + " ".join(UpheavalNode.status_command))


@pytest.fixture
def container(engine: Client, node_image: str) -> Iterator[object]:
    with running(
        engine, node_image, ["-c", "exec sleep 600"], entrypoint="sh", network_mode="none", init=True
    ) as running_one:
        running_one.reload()
        yield running_one


def test_what_got_lost_is_asked_again(container: object) -> None:
    assert run_inside(container, lost_once("x", "echo said"), "asking") == (0, "said")
    assert run_inside(container, ("sh", "-c", "exit 3"), "asking") == (3, "")


def test_what_gets_lost_each_time_is_unknown(container: object) -> None:
    with pytest.raises(UnknownOutcome, match="asking: what was said got lost in the engine") as raised:
        run_inside(container, ("true",), "asking")
    assert not isinstance(raised.value, ContainerEnded)
    with pytest.raises(UnknownOutcome, match="got lost"):
        run_inside(container, lost_once("once", "echo said"), "ordering", attempts=1)
    assert run_silent(container, ("true",), "filtering") == (0, "")


def test_a_member_whose_answer_got_lost_is_not_dead(tmp_path: Path, node_image: str, engine: Client) -> None:
    cluster = DockerCluster.create(tmp_path / "run", ClusterSpec(members=1, image=node_image))
    try:
        cluster.up()
        cluster.system = Forgetful()
        assert cluster.status()[0].alive
        container = cluster.member(0).node.container()
        cluster.member(0).pause()
        assert not cluster.status()[0].alive
        with pytest.raises(ContainerEnded):
            run_inside(container, ("true",), "asking")
        cluster.member(0).resume()
    finally:
        cluster.down()
