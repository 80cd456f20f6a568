"""The files in compose/ with plain docker commands: start, send, kill a member, send again, take down."""

import dataclasses
import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import docker as docker_sdk
import pytest

from support.compose_projects import PROJECT, left_of_project, new_name, remove_abandoned, remove_project
from support.compose_runs import (
    COMPOSE,
    STATUS_INTERVAL_S,
    Project,
    again,
    docker,
    is_ordered,
    kill_the_leader_between_two_writes,
    running,
)
from support.docker_runs import ENGINE_INTERVAL_S
from support.page_commands import blocks_of
from upheaval import images
from upheaval.cli.main import main
from upheaval.errors import EnvironmentFault
from upheaval.runtimes.docker.containers import free_subnets
from upheaval.runtimes.docker.engine import Client
from upheaval.runtimes.owner import Owner
from upheaval.waits import wait_until


@pytest.fixture(scope="module", params=["backup", pytest.param("standby", marks=pytest.mark.nightly)])
def companion(request: pytest.FixtureRequest) -> str:
    """The kind of the node beside the members."""
    return str(request.param)


@pytest.fixture(scope="module")
def accompanied(companion: str, node_image: str, tidy: Client) -> Iterator[Project]:
    """Three members and that node."""
    with running(Project(tidy, "3-members.yaml", 3, profiles=companion)) as project:
        yield project


def test_a_new_cluster_begins_with_a_copy_of_the_volume_of_a_companion(
    companion: str,
    accompanied: Project,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the commands of docs/backup.md and docs/standby.md."""
    monkeypatch.chdir(tmp_path)
    (block,) = [block for block in blocks_of(f"{companion}.md") if block.info == "sh docker"]
    prefix = f"docker compose -f compose/3-members.yaml --profile {companion} "
    assert all(line.startswith(prefix) for line in block.text.splitlines())
    up, health, stop, copy = (shlex.split(line.removeprefix(prefix)) for line in block.text.splitlines())
    assert up == ["up", "-d", "--wait"]
    reached = {"backup": "live_log_position", "standby": "applied_position"}[companion]

    def has_all() -> bool:
        held = json.loads(accompanied.compose(*health))
        return bool(held["state"] == "BACKING_UP" and held[reached] >= committed)

    with accompanied.client() as client:
        again(client, lambda: client.write("k", b"kept"))
    committed = accompanied.status(accompanied.await_leader())["commit_position"]
    wait_until(
        has_all,
        timeout_s=240,
        describe=lambda: f"the {companion} does not come to position {committed}",
        interval_s=STATUS_INTERVAL_S,
    )
    accompanied.compose(*stop)
    accompanied.compose(*copy)
    command = {"backup": "restore", "standby": "promote"}[companion]
    try:
        assert main([command, "--from", f"{companion}-0", "--dir", "new"]) == 0, capsys.readouterr().err
        assert main(["client", "--dir", "new", "register", "read", "k"]) == 0
        assert b"kept".hex() in capsys.readouterr().out
    finally:
        assert main(["down", "--dir", "new"]) == 0


def survive_a_kill_and_stay_down(project: Project) -> None:
    """A killed leader loses nothing, and a cluster that was ended is not started again by the engine."""
    kill_the_leader_between_two_writes(project)
    members = [project.container(f"member-{member}") for member in range(project.members)]

    def are_settled() -> bool:
        states = [project.status(member).get("election_state") for member in range(project.members)]
        return states == ["CLOSED"] * project.members

    # One that is catching up hears nothing of the end, and catches up at the next start.
    wait_until(are_settled, timeout_s=240, describe=lambda: "not all members are settled", interval_s=STATUS_INTERVAL_S)
    leader = members[project.await_leader()]
    order = ("exec", leader, "python3", "-m", "upheaval_node.runtime.control", "shutdown", "/var/lib/upheaval")
    wait_until(
        lambda: is_ordered(order),
        timeout_s=240,
        describe=lambda: "no member takes the shutdown",
        interval_s=ENGINE_INTERVAL_S,
    )
    wait_until(
        lambda: {state_of(member) for member in members} == {"exited 0 0"},
        timeout_s=240,
        describe=lambda: str([state_of(member) for member in members]),
        interval_s=ENGINE_INTERVAL_S,
    )
    for member in members:
        told = [json.loads(line) for line in docker("logs", "--tail", "20", member, both=True).splitlines()]
        assert told[-1]["event"] == "process-end"
        assert "cluster-end" in {line["event"] for line in told}
    docker("start", *members)
    with project.client() as client:
        assert again(client, lambda: client.read("k")) == b"after"


def state_of(container: str) -> str:
    """Its state, exit status, and how often the engine started it again."""
    return docker("inspect", "-f", "{{.State.Status}} {{.State.ExitCode}} {{.RestartCount}}", container).strip()


def test_three_members_survive_a_kill_and_stay_down(accompanied: Project) -> None:
    survive_a_kill_and_stay_down(accompanied)


@pytest.mark.nightly
def test_one_member_survives_a_kill_and_stays_down(node_image: str, tidy: Client) -> None:
    with running(Project(tidy, "1-member.yaml", 1)) as project:
        survive_a_kill_and_stay_down(project)


def test_subnets_that_somebody_has_are_not_drawn(engine: Client) -> None:
    within = "10.215.0.0/27"
    taken, free = sorted(free_subnets(engine, within, 2))
    pool = docker_sdk.types.IPAMConfig(pool_configs=[docker_sdk.types.IPAMPool(subnet=taken)])
    network = engine.networks.create(new_name(), ipam=pool)
    try:
        assert [free_subnets(engine, within, 1) for _ in range(3)] == [[free]] * 3
        with pytest.raises(EnvironmentFault, match=f"no 2 subnets of {within} are free"):
            free_subnets(engine, within, 2)
    finally:
        network.remove()


def test_what_a_killed_test_run_left_is_removed_and_nothing_else(engine: Client, node_image: str) -> None:
    """Made without compose, by the same labels: a project of a process that is gone, and one of this process."""
    me = Owner.me()
    gone, ours = new_name(dataclasses.replace(me, start="1")), new_name()
    try:
        for name in (gone, ours):
            labels = {PROJECT: name}
            engine.networks.create(name, labels=labels)
            engine.volumes.create(name, labels=labels)
            engine.containers.create(node_image, labels=labels, network=name, volumes={name: {"bind": "/x"}})
        kept = left_of_project(engine, ours)
        assert len(kept) == len(left_of_project(engine, gone)) == 3
        remove_abandoned(engine)
        assert left_of_project(engine, gone) == []
        assert left_of_project(engine, ours) == kept
    finally:
        remove_project(engine, gone)
        remove_project(engine, ours)


def test_the_files_name_the_images_of_this_version() -> None:
    files = {file.name: file.read_text(encoding="utf-8") for file in sorted(COMPOSE.glob("*.yaml"))}
    members = {"1-member.yaml", "3-members.yaml", "3-members-aeron.yaml", "3-members-toxiproxy.yaml"}
    assert files.keys() == {*members, "spark.yaml"}
    assert f"${{UPHEAVAL_ANALYSIS_IMAGE:-{images.ANALYSIS.tag}}}" in files.pop("spark.yaml")
    assert f"${{UPHEAVAL_AERON_IMAGE:-{images.AERON.tag}}}" in files.pop("3-members-aeron.yaml")
    for text in files.values():
        assert f"${{UPHEAVAL_NODE_IMAGE:-{images.NODE.tag}}}" in text
        assert "version:" not in text
    for image in (images.TOXIPROXY, images.LOAD, images.PROMETHEUS):
        assert f"_IMAGE:-{image.tag}}}" in files["3-members-toxiproxy.yaml"]
