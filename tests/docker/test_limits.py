"""Limited processors and memory of containers: proved by what the kernel counts when they were limited, and not by an
injector that did nothing, limited another one or lifted nothing.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support import hoard
from support.docker_runs import left_of, upheaval
from support.fault_cases import WORKLOAD, fault_of, one_round
from support.saboteur import OF_ALL, Sabotage
from support.valid import require_valid_end
from upheaval.errors import EnvironmentFault
from upheaval.execution.live import LiveStage
from upheaval.records import RunFolder
from upheaval.runtimes.docker import machines
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client
from upheaval.runtimes.live import AnyCluster
from upheaval.scenario import parse_scenario
from upheaval.testing.cluster import Cluster
from upheaval_chaos import faults, host_faults
from upheaval_chaos.host_faults import MIB, HostFaultKind

STATEMENT = "cpu-limit follower percent=5"
MEMORY = "memory-limit follower megabytes=999"
"""With what the follower uses in place of 999."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, node_image: str, engine: Client) -> Iterator[LiveStage]:
    """Three members under load."""
    text = f"title limits\n{WORKLOAD}wait operations 1\ninject x {STATEMENT}\ninject y {MEMORY}\n"
    scenario = parse_scenario(text, name="limits", where="limits")
    stage = LiveStage(scenario, "docker", 1, tmp_path_factory.mktemp("limits") / "run")
    try:
        stage.open(print)
        yield stage
    finally:
        stage.close()
    assert left_of(engine, stage.run.read_manifest().run_id) == []


def used_by(cluster: AnyCluster, member_id: int) -> int:
    assert isinstance(cluster, DockerCluster)
    (container,) = cluster.member(member_id).node.running()
    counts = machines._memory_of(cluster.client, container, f"member {member_id}")
    assert counts is not None
    return counts.used


def tight(statement: str, stage: LiveStage) -> str:
    """With the limit that the first follower meets with the next page of a file that it writes."""
    follower = next(member_id for member_id in stage.target.member_ids if member_id != stage.target.leader())
    assert isinstance(stage.target, DockerCluster)
    megabytes = used_by(stage.target, follower) // MIB
    return statement.replace("follower", f"member-{follower}").replace("999", str(megabytes))


ROUNDS = [
    pytest.param(
        *(statement, reader, sabotage),
        marks=pytest.mark.nightly
        if (statement, reader) == (MEMORY, "engine") and sabotage is not Sabotage.NONE
        else (),
    )
    for statement in (STATEMENT, MEMORY)
    for reader in ("harness", "engine")
    for sabotage in OF_ALL
]


def shows_ends_only(engine: Client) -> bool:
    """Of control groups of version 2, engines do not count how often a limit of memory was met."""
    return engine.info().get("CgroupVersion") == "2"


@pytest.mark.parametrize(("statement", "reader", "sabotage"), ROUNDS)
def test_only_what_was_done_is_proved(
    statement: str, reader: str, sabotage: Sabotage, stage: LiveStage, engine: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's counts are read here and, as where this process does not see the groups, by the engine."""
    if reader == "engine":
        monkeypatch.setattr(machines, "_group_of", lambda *_: None)
    patient, hurried = 60.0, 6.0
    for module in (faults, host_faults):
        takes_effect = sabotage in (Sabotage.NONE, Sabotage.STAYS)
        monkeypatch.setattr(module, "TAKES_EFFECT_S", patient if takes_effect else hurried)
        monkeypatch.setattr(module, "COMES_BACK_S", patient if sabotage is Sabotage.NONE else hurried)
    record = one_round(stage.target, fault_of(tight(statement, stage)), sabotage)
    shows_met = (statement, reader) != (MEMORY, "engine") or not shows_ends_only(engine)
    assert record.is_proved == (sabotage is Sabotage.NONE and shows_met), record


def test_both_readers_see_the_same_counts(stage: LiveStage, engine: Client) -> None:
    cluster = stage.target
    assert isinstance(cluster, DockerCluster)
    (container,) = cluster.member(0).node.running()
    here = machines._counts_here(container)
    assert here is not None
    assert here == machines._counts_by_engine(cluster.client, container, "member 0")
    memory, by_engine = machines._memory_here(container), machines._memory_by_engine(cluster.client, container, "x")
    assert memory is not None
    assert by_engine is not None
    # It goes on using more or less.
    assert by_engine == replace(
        memory, used=by_engine.used, met=by_engine.met if shows_ends_only(engine) else memory.met
    )
    assert by_engine.used > 0


@pytest.mark.parametrize("reader", ["harness", pytest.param("engine", marks=pytest.mark.nightly)])
def test_a_member_that_the_kernel_ended_for_want_of_memory_comes_back(
    reader: str, tmp_path: Path, node_image: str, engine: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reader == "engine":
        monkeypatch.setattr(machines, "_group_of", lambda *_: None)
    source, run = hoard.source_in(tmp_path / "source"), tmp_path / "run"
    with Cluster(hoard.SERVICE, source, runtime="docker", folder=run) as cluster:
        hoard.require_refused(cluster)
        hoard.require_one_ended(cluster, used_by, monkeypatch)
    assert left_of(engine, RunFolder(run).read_manifest().run_id) == []


@pytest.mark.parametrize("components", ["together", "split"])
def test_a_run_with_a_limited_leader_is_valid(components: str, tmp_path: Path, node_image: str, engine: Client) -> None:
    script = tmp_path / "limited.scenario"
    script.write_text(
        f"title limited\ncluster components={components}\nworkload rate=100\nwait operations 50\n"
        "inject starved cpu-limit leader percent=3\nwait operations 50\n"
        "heal starved\nwait caught-up starved\nwait operations 50\n"
    )
    folder = tmp_path / "run"
    done = upheaval("run", str(script), "--runtime", "docker", "--dir", str(folder), "--json")
    require_valid_end(done.returncode, folder, done.stdout + done.stderr)
    run = RunFolder(folder)
    (fault,) = run.read_faults()
    assert fault.is_proved, fault
    assert left_of(engine, run.read_manifest().run_id) == []


class Unable:
    """An engine of a kernel without quotas or limits of memory."""

    def info(self) -> dict[str, bool]:
        return {"CpuCfsQuota": False, "MemoryLimit": False}


@pytest.mark.parametrize(("kind", "what"), [("cpu-limit", "processor"), ("memory-limit", "memory")])
def test_an_engine_that_cannot_limit_is_refused_in_one_line(kind: str, what: str) -> None:
    with pytest.raises(EnvironmentFault, match=rf"^{kind}: this Docker engine cannot limit the {what} of containers"):
        machines.require_limits(Unable(), [HostFaultKind(kind)])
