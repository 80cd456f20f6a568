"""A member that a program of the user's starts: seen as any other is, and refused in one line when it is none."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from aeron_jar import jar
from support.stranger import copy_of, pytest_in
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.operations.maintenance import upgrade
from upheaval.records import MemberFolder, TraceEvent
from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.process_hosts import ProcessHosts
from upheaval.runtimes.renewal import Renewal
from upheaval.system import ClusterSpec, MemberPlan, system_named
from upheaval.system.process_table import processes_of
from upheaval.waits import wait_until
from upheaval_node.types import S

EXAMPLE: Final = "java-launcher"
SERVICE: Final = "target/classes:desk.DeskService"
LAUNCHER: Final = "java -cp {aeron}:target/classes desk.DeskMember"
SMALL: Final = "-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
TIMEOUT_S: Final = 600
HERE: Final = Path(__file__).resolve().parents[1] / "support" / "java_launchers"
OTHER_MEMBER: Final = """
import io.aeron.cluster.ConsensusModule;
public class OtherMember {
    public static void main(final String[] arguments) {
        ConsensusModule.launch(new ConsensusModule.Context().clusterMemberId(7));
    }
}
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, compiled."""
    folder = copy_of(EXAMPLE, tmp_path_factory.mktemp("desk") / EXAMPLE)
    sources = [str(path) for path in (folder / "src" / "main").rglob("*.java")]
    subprocess.run(["javac", "-cp", str(jar()), "-d", str(folder / "target/classes"), *sources], check=True)
    return folder


@pytest.fixture
def made(tmp_path: Path) -> Iterator[list[ProcessCluster]]:
    """Clusters to end."""
    clusters: list[ProcessCluster] = []
    yield clusters
    for cluster in clusters:
        cluster.down()


def spec_of(launcher: str, source: Path, *, service: str = "workbench") -> ClusterSpec:
    return ClusterSpec(1, system="aeron", launcher=launcher, jvm=SMALL, source=str(source), service=service)


@pytest.mark.heavy
def test_a_member_of_a_launcher_is_seen_as_any_other(desk: Path, tmp_path: Path, made: list[ProcessCluster]) -> None:
    cluster = ProcessCluster.create(tmp_path / "run", spec_of(LAUNCHER, desk, service=SERVICE))
    made.append(cluster)
    assert cluster.up() == 0
    trace = MemberFolder(cluster.member(0).folder, 0)
    # The service hears of its leader's role after the module has it.
    wait_until(
        lambda: any(event.event == "service-role" for event in trace.read_trace()),
        timeout_s=TIMEOUT_S,
        describe=lambda: "the service has no role",
    )
    cluster.member(0).stop()
    events = list(trace.read_trace())
    kinds = [event.event for event in events]
    assert kinds[0] == "process-start"
    assert {"role", "election_state", "leadership_term"} <= set(kinds)
    (end,) = (event for event in events if event.event == "process-end")
    assert (end.fields["status"], end.fields["reason"]) == (0, "SIGTERM")
    assert not processes_of(cluster.config.run_id)


def test_contexts_of_another_member_are_refused(tmp_path: Path) -> None:
    (tmp_path / "OtherMember.java").write_text(OTHER_MEMBER)
    spec = replace(spec_of("java -cp {aeron} OtherMember.java", tmp_path), run_id="7f")
    system = system_named("aeron")
    plan = MemberPlan(spec, 0, [["127.0.0.1:1"] * 5], "127.0.0.1:1", str(tmp_path))
    configuration = tmp_path / "member.properties"
    configuration.write_text(system.configuration_text(plan))
    done = subprocess.run(
        system.command(plan, configuration), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "launcher: expected ConsensusModule.Context.clusterMemberId 0, got 7: "
        "leave it as the context's constructor sets it"
    )


@pytest.mark.parametrize(
    ("launcher", "says"),
    [
        ("echo no cluster", "ended with status 0: its launcher started no component of Aeron: no cluster"),
        ("sh -c 'echo waiting; exec tail -f /dev/null'", "has written no trace: .*: waiting"),
    ],
)
def test_a_launcher_that_starts_no_member_is_refused_in_one_line(
    launcher: str, says: str, tmp_path: Path, made: list[ProcessCluster]
) -> None:
    cluster = ProcessCluster.create(tmp_path / "run", spec_of(launcher, tmp_path))
    made.append(cluster)
    with pytest.raises(EnvironmentFault, match=f"member 0 {says}"):
        cluster.up(timeout_s=20)
    assert not processes_of(cluster.config.run_id)


def odd(case: str) -> str:
    """The launcher that does one thing otherwise."""
    return f"java -cp {{aeron}} {HERE / 'OddMember.java'} {case}"


def ended(cluster: ProcessCluster) -> TraceEvent:
    """The end that member 0 traces, when its processes are gone."""
    wait_until(
        lambda: not cluster.member(0).is_running(), timeout_s=TIMEOUT_S, describe=lambda: "the member does not end"
    )
    (end,) = (event for event in events_of(cluster) if event.event == "process-end")
    return end


def events_of(cluster: ProcessCluster) -> list[TraceEvent]:
    return list(MemberFolder(cluster.member(0).folder, 0).read_trace())


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("start", "start: java.lang.IllegalStateException: no archive"),
        ("exit", "the program ended by itself"),
        ("closes", "service-0: its module has ended"),
    ],
)
def test_a_program_that_ends_by_itself_does_not_end_in_order(
    case: str, reason: str, tmp_path: Path, made: list[ProcessCluster]
) -> None:
    cluster = ProcessCluster.create(tmp_path / "run", spec_of(odd(case), tmp_path))
    made.append(cluster)
    cluster.member(0).node.start()
    end = ended(cluster)
    assert (end.fields["status"], end.fields["reason"]) == (7, reason)
    assert "cluster-end" not in {event.event for event in events_of(cluster)}


def test_a_program_that_takes_its_signals_after_its_launches_ends_in_order(
    tmp_path: Path, made: list[ProcessCluster]
) -> None:
    cluster = ProcessCluster.create(tmp_path / "run", spec_of(odd("late"), tmp_path))
    made.append(cluster)
    cluster.up()
    cluster.member(0).stop()
    end = ended(cluster)
    assert (end.fields["status"], end.fields["reason"]) == (0, "SIGTERM")


def test_a_hook_may_end_the_program_with_its_cluster(tmp_path: Path, made: list[ProcessCluster]) -> None:
    cluster = ProcessCluster.create(tmp_path / "run", spec_of(odd("hook"), tmp_path))
    made.append(cluster)
    cluster.up()
    assert cluster.give(0, "shutdown") == ""
    end = ended(cluster)
    assert (end.fields["status"], end.fields["status_name"]) == (0, "OK")
    (last,) = (event for event in events_of(cluster) if event.event == "cluster-end")
    assert last.fields["log_position"] > 0
    # The module waits in its hook for the end of the virtual machine, and is not waited for.
    (terminated,) = (event for event in events_of(cluster) if event.event == "service-terminate")
    assert end.ns - terminated.ns < 9 * S


def test_a_module_that_an_invoker_runs_has_no_stalls_and_ends_at_its_position(
    tmp_path: Path, made: list[ProcessCluster]
) -> None:
    """Between its cycles nothing of ours is called: that is no stall, and the last look was long ago."""
    cluster = ProcessCluster.create(tmp_path / "run", spec_of(odd("invoker"), tmp_path))
    made.append(cluster)
    cluster.up()
    cluster.let_pass(10)
    assert cluster.give(0, "abort") == ""
    assert ended(cluster).fields["status"] == 0
    events = {event.event: event for event in events_of(cluster)}
    position = events["service-terminate"].fields["log_position"]
    assert events["cluster-end"].fields["log_position"] == position > 0
    assert max(stalls_of(cluster), default=0) < 10 * S


def test_the_module_idles_by_the_strategy_of_a_system_property(tmp_path: Path, made: list[ProcessCluster]) -> None:
    classes, names = tmp_path / "classes", tmp_path / "names"
    names.mkdir()
    subprocess.run(["javac", "-cp", str(jar()), "-d", str(classes), str(HERE / "NamedIdle.java")], check=True)
    launcher = odd("plain").replace("{aeron}", f"{{aeron}}:{classes}")
    strategy = f"-Daeron.cluster.idle.strategy=NamedIdle -Dnamed.idle={names}"
    spec = replace(spec_of(launcher, tmp_path), jvm=f"{SMALL} {strategy}")
    cluster = ProcessCluster.create(tmp_path / "run", spec)
    made.append(cluster)
    cluster.up()
    threads = {path.name for path in names.iterdir()}
    assert any(name.startswith("consensus") for name in threads), threads


def stalls_of(cluster: ProcessCluster) -> list[int]:
    return [event.fields["stall_ns"] for event in events_of(cluster) if event.event == "loop-stall"]


def test_a_launcher_that_starts_no_member_again_is_refused_at_once(tmp_path: Path, made: list[ProcessCluster]) -> None:
    once = f"sh -c 'test -e once && echo it runs already && exit 0; touch once; exec {odd('plain')}'"
    cluster = ProcessCluster.create(tmp_path / "run", spec_of(once, tmp_path))
    made.append(cluster)
    cluster.up()
    cluster.member(0).stop()
    cluster.member(0).node.start()
    says = r"ended with status 0: its launcher started no component .*it runs already"
    with pytest.raises(EnvironmentFault, match=says):
        cluster.wait_until_leader(120)


def test_a_launcher_with_another_version_is_renewed_to_no_version(tmp_path: Path, made: list[ProcessCluster]) -> None:
    """Its own jar is allowed, and an upgrade that names no system changes no version."""
    launcher = odd("plain").replace("{aeron}", str(jar("1.49.3")))
    cluster = ProcessCluster.create(tmp_path / "run", spec_of(launcher, tmp_path))
    made.append(cluster)
    cluster.up()
    assert upgrade(cluster, ProcessHosts(cluster), Renewal(), print) == [0]
    with pytest.raises(EnvironmentFault, match=r"member 0 runs Aeron 1\.49\.3 and not "):
        upgrade(cluster, ProcessHosts(cluster), Renewal(system="aeron"), print)


def test_options_that_java_does_not_take_are_refused_before_anything_starts(tmp_path: Path) -> None:
    spec = replace(spec_of("", tmp_path), jvm="-Xmx1z")
    with pytest.raises(UsageError, match="jvm '-Xmx1z': Invalid maximum heap size: -Xmx1z"):
        ProcessCluster.create(tmp_path / "run", spec)
    assert not (tmp_path / "run").exists()


@pytest.mark.heavy
@pytest.mark.nightly
def test_the_example_is_built_by_maven_and_its_tests_pass(tmp_path: Path) -> None:
    folder = copy_of(EXAMPLE, tmp_path / EXAMPLE)
    subprocess.run(["mvn", "-B", "-q", "package"], cwd=folder, check=True)
    done = pytest_in(folder, Path(sys.executable), timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (folder / "runs").exists()
