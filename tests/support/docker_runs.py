"""What the tests of the docker runtime ask an engine, and the command line as a program."""

import os
import subprocess
import sys
from typing import Final

from upheaval.runtimes.docker import labels
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client
from upheaval.waits import wait_until

ENGINE_INTERVAL_S: Final = 0.2
"""Between two looks at the engine: without a pause, looking takes the processors that containers need."""

TIMEOUT_S: Final = 240.0
"""Of what the engine and members do when they get little of the processors."""


def left_of(engine: Client, run_id: str) -> list[str]:
    """What the engine still has of a run."""
    filters = {"label": f"{labels.RUN_ID}={run_id}"}
    return [
        *(container["Id"] for container in engine.api.containers(all=True, filters=filters)),
        *(network["Id"] for network in engine.api.networks(filters=filters)),
        *(volume["Name"] for volume in engine.api.volumes(filters=filters)["Volumes"] or ()),
    ]


def wait_for_members(engine: Client, run_id: str, members: int = 3) -> None:
    """Until the members of a run are in their containers."""
    filters = {"label": [f"{labels.RUN_ID}={run_id}", labels.MEMBER], "status": "running"}
    wait_until(
        lambda: len(engine.api.containers(filters=filters)) == members,
        timeout_s=120,
        describe=lambda: f"no {members} members of {run_id}",
        interval_s=ENGINE_INTERVAL_S,
    )


def require_whole(cluster: DockerCluster) -> None:
    """All members run and follow one leader; none has to be started for that."""
    assert all(len(member.incarnation()) == len(member.node.containers) for member in cluster.members)
    leader = cluster.wait_until_leader(TIMEOUT_S)
    followed = {cluster.wait_until_caught_up(m.member_id, TIMEOUT_S).leader_member_id for m in cluster.members}
    assert followed == {leader}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "upheaval.cli.main", *arguments]


def upheaval(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the command line to its end."""
    return subprocess.run(
        command(*arguments),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
