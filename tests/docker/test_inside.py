"""Commands in containers whose output the engine loses, as with a command that prints nothing the first time.

And eyes, which are asked again and again.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from support.built_images import running
from support.docker_runs import left_of
from upheaval.errors import EnvironmentFault, UnknownOutcome
from upheaval.runtimes.docker import inside
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client
from upheaval.runtimes.docker.eye import Eye
from upheaval.runtimes.docker.inside import ContainerEnded, require_shared_clock, run_inside, run_silent
from upheaval.system import ClusterSpec
from upheaval.waits import wait_until

ANOTHER_KERNEL = "the Docker engine runs containers on another kernel, whose clock differs by "
COUNTING = 'n=0; while read line; do n=$((n+1)); echo "said $n"; done'
LOST_ONCE = "test -e /tmp/{mark} || { touch /tmp/{mark}; exit 0; }; "


def lost_once(mark: str, command: str) -> tuple[str, ...]:
    return ("sh", "-c", LOST_ONCE.replace("{mark}", mark) + command)


@pytest.fixture
def container(engine: Client, node_image: str) -> Iterator[object]:
    with running(
        engine, node_image, ["-c", "exec sleep 600"], entrypoint="sh", network_mode="none", init=True
    ) as running_one:
        running_one.reload()
        yield running_one


def test_what_got_lost_is_asked_again(container: Any) -> None:
    assert run_inside(container, lost_once("x", "echo said"), "asking") == (0, "said")
    assert run_inside(container, ("sh", "-c", "exit 3"), "asking") == (3, "")


def test_what_gets_lost_each_time_is_unknown(container: Any) -> None:
    with pytest.raises(UnknownOutcome, match="asking: its output got lost in the engine") as raised:
        run_inside(container, ("true",), "asking")
    assert not isinstance(raised.value, ContainerEnded)
    with pytest.raises(UnknownOutcome, match="got lost"):
        run_inside(container, lost_once("once", "echo said"), "ordering", attempts=1)
    assert run_silent(container, ("true",), "filtering") == (0, "")


def looking_of(container: Any) -> list[str]:
    """The eyes in a container, by their command lines."""
    return [line[-1] for line in container.top()["Processes"] if "read" in line[-1]]


def test_an_eye_says_a_line_whenever_it_is_asked(container: Any) -> None:
    eye = Eye(("sh", "-c", COUNTING), "asking")
    assert [eye.ask(container) for _ in range(3)] == ["said 1", "said 2", "said 3"]
    assert len(looking_of(container)) == 1
    eye.close()
    wait_until(lambda: not looking_of(container), timeout_s=20, describe=lambda: str(looking_of(container)))
    assert eye.ask(container) == "said 1"
    eye.close()


def test_an_eye_of_a_container_that_does_not_go_on_says_so(container: Any) -> None:
    """Paused between the look at the container and the answer, ended, and begun again."""
    eye = Eye(("sh", "-c", COUNTING), "asking")
    assert eye.ask(container) == "said 1"
    container.pause()
    with pytest.raises(ContainerEnded):
        eye.ask(container)
    container.unpause()
    container.reload()
    assert [eye.ask(container) for _ in range(2)] == ["said 1", "said 2"]
    container.kill()
    with pytest.raises(ContainerEnded):
        eye.ask(container)
    container.start()
    container.reload()
    assert eye.ask(container) == "said 1"
    eye.close()


def test_a_container_that_is_gone_has_ended(engine: Client, node_image: str) -> None:
    one = engine.containers.run(node_image, ["600"], entrypoint="sleep", network_mode="none", detach=True)
    eye = Eye(("sh", "-c", COUNTING), "asking")
    try:
        one.reload()
        assert eye.ask(one) == "said 1"
    finally:
        one.remove(force=True)
    with pytest.raises(ContainerEnded):
        eye.ask(one)


def test_an_eye_that_never_says_one_line_is_no_dead_container(container: Any) -> None:
    for command in ("read line", "read line; printf 'one\\ntwo\\n'; read line"):
        eye = Eye(("sh", "-c", command), "asking")
        with pytest.raises(UnknownOutcome, match="asking: no answer from `sh -c read line") as raised:
            eye.ask(container)
        assert not isinstance(raised.value, ContainerEnded)


def test_what_a_process_says_unasked_is_no_answer(container: Any) -> None:
    eye = Eye(("sh", "-c", COUNTING.replace("; done", "; sleep 0.2; echo more; touch /tmp/more; done")), "asking")
    assert eye.ask(container) == "said 1"
    more = ["test", "-e", "/tmp/more"]
    wait_until(lambda: container.exec_run(more).exit_code == 0, timeout_s=20, describe=lambda: "it says no more")
    assert eye.ask(container) == "said 1"
    eye.close()


def test_an_answer_that_comes_late_is_not_taken_for_another(container: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine refuses a look at the container while its process takes its time."""
    slow = Eye(("sh", "-c", COUNTING.replace("echo", "test -e /tmp/told || sleep 4; echo")), "asking")

    def refuse() -> None:
        raise requests.exceptions.ReadTimeout

    monkeypatch.setattr(container, "reload", refuse)
    with pytest.raises(EnvironmentFault, match="does not answer"):
        slow.ask(container)
    container.exec_run(["touch", "/tmp/told"])
    assert [slow.ask(container) for _ in range(2)] == ["said 1", "said 2"]
    slow.close()


def test_a_member_whose_answer_got_lost_is_not_dead(tmp_path: Path, node_image: str, engine: Client) -> None:
    cluster = DockerCluster.create(tmp_path / "run", ClusterSpec(members=1, image=node_image))
    try:
        cluster.up()
        container = cluster.member(0).node.container()
        command = " ".join(cluster.system.status_command)
        eye = Eye(lost_once("status", f"exec {command}"), "asking")
        assert cluster.system.parse_status(0, eye.ask(container)).alive
        eye.close()
        assert cluster.status()[0].alive
        cluster.member(0).pause()
        assert not cluster.status()[0].alive
        with pytest.raises(ContainerEnded):
            run_inside(container, ("true",), "asking")
        cluster.member(0).resume()
    finally:
        cluster.down()


def boot_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine booted an hour before that of the engine."""
    read = time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda clock: read(clock) + 3600 * (clock == time.CLOCK_BOOTTIME))
    # It is another one at each read.
    monkeypatch.setattr(inside, "BOOT", ("/proc/sys/kernel/random/uuid",))


def test_a_container_on_another_kernel_is_refused(container: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    require_shared_clock(container, "member 0")
    boot_earlier(monkeypatch)
    with pytest.raises(EnvironmentFault, match=f"^{ANOTHER_KERNEL}-3600"):
        require_shared_clock(container, "member 0")


def test_a_container_that_shows_its_own_age_has_the_clock_of_this_machine(
    tmp_path: Path, engine: Client, node_image: str
) -> None:
    """As in a system container, or with the engine's own view of `/proc`."""
    (tmp_path / "uptime").write_text("12.00 12.00\n")
    volumes = {str(tmp_path / "uptime"): {"bind": "/proc/uptime", "mode": "ro"}}
    command = ["-c", "exec sleep 600"]
    with running(engine, node_image, command, entrypoint="sh", network_mode="none", volumes=volumes) as one:
        one.reload()
        assert run_inside(one, ("cat", "/proc/uptime"), "asking") == (0, "12.00 12.00")
        require_shared_clock(one, "member 0")


def test_a_cluster_on_another_kernel_does_not_start(
    tmp_path: Path, node_image: str, engine: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = DockerCluster.create(tmp_path / "run", ClusterSpec(members=1, image=node_image))
    boot_earlier(monkeypatch)
    with cluster, pytest.raises(EnvironmentFault, match=ANOTHER_KERNEL):
        cluster.up()
    assert left_of(engine, cluster.config.run_id) == []
