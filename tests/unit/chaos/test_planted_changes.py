"""Each planted bug changes the agents that it says, and a table row is all that it takes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from upheaval.campaign.variations import CHECKSUM
from upheaval.records import CompanionConfig
from upheaval.runtimes.simulated.cluster import SimulatedCluster
from upheaval.runtimes.simulated.companion import SimulatedCompanion, make_backup
from upheaval.runtimes.simulated.gate import make_gate
from upheaval.runtimes.simulated.standby import make_standby
from upheaval.runtimes.simulated.world import World
from upheaval.system import ClusterSpec
from upheaval_chaos.planted.bug import PlantedBug
from upheaval_chaos.planted.catalogue import AREAS, CATALOGUE
from upheaval_node.settings import profile_settings
from upheaval_node.types import S

pytestmark = pytest.mark.pure

DEPTH = 5
"""Of parts of parts of an agent, as deep as a bug reaches."""


@pytest.fixture(scope="module")
def agents() -> Sequence[object]:
    """Those of a member that leads, of a backup and of a standby; they take no turn any more."""
    profile = profile_settings("test", sync_level=1)
    settings = replace(profile, archive=replace(profile.archive, record_checksum=CHECKSUM, replay_checksum=CHECKSUM))
    cluster = SimulatedCluster(World(seed=1), settings=settings, gate=make_gate(1))
    cluster.start_all()
    leader = cluster.wait_until_leader()
    companions = [make(cluster, CompanionConfig(name)) for name, make in NODES.items()]
    for companion in companions:
        companion.start()
    cluster.world.run_for(S)
    return [*cluster.members[leader]._agents, *(agent for each in companions for agent in each.agents)]


NODES = {"backup-0": make_backup, "standby-0": make_standby}


@pytest.mark.parametrize("bug", CATALOGUE, ids=lambda bug: bug.name)
def test_a_bug_changes_each_agent_of_its_class(bug: PlantedBug, agents: Sequence[object]) -> None:
    changed = [agent for agent in agents if isinstance(agent, bug.where)]
    before = [_parts(agent) for agent in changed]
    assert before
    bug.plant(agents)
    assert [_parts(agent) != parts for agent, parts in zip(changed, before, strict=True)] == [True] * len(changed)


def test_areas_are_told_apart_and_hold_every_bug() -> None:
    names = [area.name for area in AREAS]
    assert len(names) == len(set(names)) == 15
    assert [area.name for area in AREAS if not area.bugs] == []
    assert sorted(bug.name for area in AREAS for bug in area.bugs) == [bug.name for bug in CATALOGUE]


def test_a_companion_has_the_bug_of_its_cluster() -> None:
    companions = []
    for planted in (None, "backup-a-frame-ahead"):
        cluster = SimulatedCluster(World(seed=1), ClusterSpec(planted=planted))
        cluster.start_all()
        companion = make_backup(cluster, CompanionConfig("backup-0"))
        companion.start()
        cluster.world.run_for(S // 10)
        companions.append(companion)
    assert [_has_own_position(companion) for companion in companions] == [False, True]


def _has_own_position(companion: SimulatedCompanion) -> bool:
    return any("_show_position" in vars(agent) for agent in companion.agents if hasattr(agent, "__dict__"))


def _parts(agent: object) -> dict[tuple[int, str], int]:
    """What each attribute of an agent is, and each attribute of its parts."""
    identities: dict[tuple[int, str], int] = {}
    known: set[int] = set()
    parts = [agent]
    for _ in range(DEPTH):
        attributes = [(owner, name, value) for owner in parts for name, value in _attributes(owner)]
        identities.update(((id(owner), name), _identity(value)) for owner, name, value in attributes)
        values = [each for _, _, value in attributes for each in (value if isinstance(value, list) else [value])]
        parts = [part for part in values if type(part).__module__.startswith("upheaval_node") and id(part) not in known]
        parts = list({id(part): part for part in parts}.values())
        known.update(map(id, parts))
    return identities


def _identity(value: object) -> int:
    return hash(value) if isinstance(value, int | str | None) else id(value)


def _attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(owner, "__dict__", {}).items()
    for name in getattr(type(owner), "__slots__", ()):
        if hasattr(owner, name):
            yield name, getattr(owner, name)
