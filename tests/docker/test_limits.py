"""Limited processors of containers: proved by what the kernel counts when they were limited, and not by an injector
that did nothing, limited another one or lifted nothing.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

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
from upheaval.scenario import parse_scenario
from upheaval_chaos import faults, host_faults

STATEMENT = "cpu-limit follower percent=5"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, node_image: str, engine: Client) -> Iterator[LiveStage]:
    """Three members under load."""
    text = f"title limits\n{WORKLOAD}wait operations 1\ninject x {STATEMENT}\n"
    scenario = parse_scenario(text, name="limits", where="limits")
    stage = LiveStage(scenario, "docker", 1, tmp_path_factory.mktemp("limits") / "run")
    try:
        stage.open(print)
        yield stage
    finally:
        stage.close()
    assert left_of(engine, stage.run.read_manifest().run_id) == []


@pytest.mark.parametrize("reader", ["harness", "engine"])
@pytest.mark.parametrize("sabotage", OF_ALL)
def test_only_what_was_done_is_proved(
    sabotage: Sabotage, reader: str, stage: LiveStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's counts are read here and, as where this process does not see the groups, by the engine."""
    if reader == "engine":
        monkeypatch.setattr(machines, "_counts_here", lambda _: None)
    patient, hurried = 60.0, 6.0
    for module in (faults, host_faults):
        takes_effect = sabotage in (Sabotage.NONE, Sabotage.STAYS)
        monkeypatch.setattr(module, "TAKES_EFFECT_S", patient if takes_effect else hurried)
        monkeypatch.setattr(module, "COMES_BACK_S", patient if sabotage is Sabotage.NONE else hurried)
    record = one_round(stage.target, fault_of(STATEMENT), sabotage)
    assert record.is_proved == (sabotage is Sabotage.NONE), record


def test_both_readers_see_the_same_counts(stage: LiveStage) -> None:
    cluster = stage.target
    assert isinstance(cluster, DockerCluster)
    (container,) = cluster.member(0).node.running()
    here = machines._counts_here(container)
    assert here is not None
    assert here == machines._counts_by_engine(cluster.client, container, "member 0")


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
    """An engine of a kernel without quotas."""

    def info(self) -> dict[str, bool]:
        return {"CpuCfsQuota": False}


def test_an_engine_that_limits_no_processor_is_refused_in_one_line() -> None:
    with pytest.raises(EnvironmentFault, match=r"^cpu-limit: this Docker engine cannot limit the processor"):
        machines.require_limits(Unable())
