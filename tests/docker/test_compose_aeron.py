"""compose/3-members-aeron.yaml: three members of Aeron, with locust."""

import json
from collections.abc import Iterator

import pytest

from support.built_images import require
from support.compose_runs import STATUS_INTERVAL_S, Project, docker, drive_by_page, is_ordered, running
from upheaval import images
from upheaval.runtimes.docker.engine import Client
from upheaval.waits import wait_until

OF_JVMS_S = 240.0
"""What members of Aeron are given: beside twelve busy processes, one that was killed took 35 s to follow again."""
INSIDE_AERON = ("python3", "-m", "upheaval.system.aeron_inside")


@pytest.fixture
def of_aeron(tidy: Client) -> Iterator[Project]:
    require(tidy, images.AERON)
    require(tidy, images.LOAD)
    with running(Project(tidy, "3-members-aeron.yaml", 3, "load", status=(*INSIDE_AERON, "status"))) as project:
        yield project


def test_members_of_aeron_elect_again_answer_locust_and_take_a_snapshot(of_aeron: Project) -> None:
    first = of_aeron.await_leader(timeout_s=OF_JVMS_S)
    docker("kill", of_aeron.container(f"member-{first}"))
    second = of_aeron.await_leader(but=first, timeout_s=OF_JVMS_S)
    drive_by_page(of_aeron)
    leader = of_aeron.container(f"member-{second}")
    wait_until(
        lambda: is_ordered(("exec", leader, *INSIDE_AERON, "control", "snapshot")),
        timeout_s=OF_JVMS_S,
        describe=lambda: "the leader takes no snapshot",
        interval_s=STATUS_INTERVAL_S,
    )
    wait_until(
        lambda: json.loads(docker("exec", leader, *INSIDE_AERON, "control"))["snapshot_count"] == 1,
        timeout_s=OF_JVMS_S,
        describe=lambda: docker("exec", leader, *INSIDE_AERON, "control"),
        interval_s=STATUS_INTERVAL_S,
    )
    # It is started again by hand: a container that was killed is not one that failed.
    docker("start", of_aeron.container(f"member-{first}"))

    def follows() -> bool:
        mine, leaders = of_aeron.status(first), of_aeron.status(second)
        return bool(mine.get("role") == "FOLLOWER" and mine["commit_position"] == leaders.get("commit_position"))

    wait_until(
        follows,
        timeout_s=OF_JVMS_S,
        describe=of_aeron.describe,
        interval_s=STATUS_INTERVAL_S,
    )
