"""Members whose components have a container each: one of them is killed, the rest of its member follows."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from support.built_images import require
from support.docker_runs import ENGINE_INTERVAL_S, TIMEOUT_S, left_of, require_whole
from upheaval import images
from upheaval.errors import UsageError
from upheaval.runtimes.docker.cluster import DockerCluster, DockerMember
from upheaval.runtimes.docker.engine import Client
from upheaval.system import AERON, COMPONENTS, ClusterSpec
from upheaval.waits import wait_until


@pytest.fixture(scope="module", params=["upheaval", pytest.param(AERON, marks=pytest.mark.nightly)])
def shared_split(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCluster]:
    engine: Client = request.getfixturevalue("engine")
    folder = tmp_path_factory.mktemp("split") / "run"
    spec = ClusterSpec(components="split")
    if request.param == AERON:
        require(engine, images.AERON)
        spec = replace(spec, system=AERON)
    else:
        spec = replace(spec, image=request.getfixturevalue("node_image"))
    cluster = DockerCluster.create(folder, spec)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
    assert left_of(engine, cluster.config.run_id) == []


@pytest.fixture
def split(shared_split: DockerCluster) -> DockerCluster:
    """Whole at the beginning of each test."""
    require_whole(shared_split)
    return shared_split


def turns_of(member: DockerMember, component: str) -> int:
    (turns,) = member.node.turns(component).values()
    return turns


def test_a_paused_service_is_seen_to_take_no_turns(split: DockerCluster) -> None:
    member = split.member(0)
    member.node.pause("service")
    frozen = turns_of(member, "service")
    moving = turns_of(member, "archive")
    wait_until(
        lambda: turns_of(member, "archive") > moving,
        timeout_s=240,
        describe=lambda: "the archive takes no turns either",
        interval_s=ENGINE_INTERVAL_S,
    )
    assert turns_of(member, "service") == frozen
    member.node.resume("service")
    wait_until(
        lambda: turns_of(member, "service") > frozen,
        timeout_s=240,
        describe=lambda: "it does not go on",
        interval_s=ENGINE_INTERVAL_S,
    )


def test_an_unknown_component_is_named(split: DockerCluster) -> None:
    with pytest.raises(UsageError, match="unknown component 'brain': use one of archive"):
        split.member(0).kill("brain")


def test_a_killed_component_ends_its_member_and_the_cluster_goes_on(split: DockerCluster) -> None:
    """The last test, because the cluster ends with it. One component is a leader's, which costs an election."""
    for component in COMPONENTS:
        leader = split.wait_until_leader(TIMEOUT_S)
        is_of_leader = component == COMPONENTS[0]
        victim = split.member(leader if is_of_leader else (leader + 1) % len(split.members))
        before = {each: victim.incarnation(each) for each in COMPONENTS}
        assert all(len(names) == 1 for names in before.values())
        victim.kill(component)
        assert not victim.incarnation(component)
        wait_until(
            lambda: not victim.is_running(),  # noqa: B023 - called in this turn only
            timeout_s=240,
            describe=lambda: "the rest of the member does not end",
            interval_s=ENGINE_INTERVAL_S,
        )
        split.wait_until_leader(TIMEOUT_S, other_than=leader if is_of_leader else None)
        victim.start()
        split.wait_until_caught_up(victim.member_id, TIMEOUT_S)
        assert all(not before[each] & victim.incarnation(each) for each in COMPONENTS)
    split.down()
    assert [fault.where.partition("/")[2] for fault in split.run.read_faults()] == list(COMPONENTS)
    assert all((split.run.member(0).path / f"{each}.log").is_file() for each in COMPONENTS)
