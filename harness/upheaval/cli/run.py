"""`upheaval run`: one scenario on one runtime, its promises as a table, and the verdict."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from upheaval.checkers.verdict import Verdict
from upheaval.cli.fault_commands import RunOptions
from upheaval.cli.new_folder import run_folder
from upheaval.cli.output import note
from upheaval.cli.settings import read_settings
from upheaval.cli.verify import print_report
from upheaval.errors import UsageError
from upheaval.execution.exact_run import run_exact
from upheaval.execution.run import ScenarioResult, run_scenario
from upheaval.execution.stage import Stage
from upheaval.load.own import load_maker, own_code
from upheaval.records import OWN_SYSTEM
from upheaval.records.labels import labelled
from upheaval.runtime_names import SIMULATED
from upheaval.runtimes import cluster_file
from upheaval.scenario import ExactScript, OwnCode, Scenario, find_exact, load_scenario, with_rules
from upheaval.system import CLUSTER_OF_THREE, require_rules
from upheaval.workload import Load, LoadMaker
from upheaval_chaos.datagram_faults import DatagramFault
from upheaval_chaos.planted.catalogue import bug_named
from upheaval_node.cluster.rules import OWN
from upheaval_node.types import S


class Progress:
    """One line on stderr for each step, with the seconds since the start."""

    def __init__(self) -> None:
        self._clock_ns: Callable[[], int] = time.monotonic_ns
        self._begin_ns = self._clock_ns()

    def follow(self, clock_ns: Callable[[], int]) -> None:
        """Show the seconds of this clock, such as a virtual one, from now on."""
        self._clock_ns, self._begin_ns = clock_ns, clock_ns()

    def say(self, text: str) -> None:
        """Print the line of one step."""
        note(f"[{(self._clock_ns() - self._begin_ns) / S:5.1f} s] {text}")


def run(options: RunOptions) -> int:
    """Run a scenario of the library, or of a file, and print how it went."""
    runtime, seed, folder, as_json = options.runtime, options.seed, options.dir, options.json
    exact = find_exact(options.name)
    if exact is not None:
        of_service = (options.service, options.user, options.model, options.schema)
        compatibility = None if options.compatibility == OWN else options.compatibility
        others = (options.planted, options.system, compatibility, options.launcher, options.jvm, *of_service)
        if runtime not in (None, SIMULATED) or any(choice is not None for choice in others):
            raise UsageError(
                f"{exact.name} is an exact script: it runs on the simulated runtime, without a planted bug, "
                "with its own service and system"
            )
        if options.shrink:
            raise UsageError(f"{exact.name} is an exact script, which has no simpler one: leave out --shrink")
        return run_exact_script(exact, seed, folder, options.labels, as_json=as_json)
    scenario = load_scenario(options.name)
    settings = read_settings()
    completed = settings.completed(options)
    own = own_code(completed.service, completed.user, completed.model, completed.schema)
    # What a scenario names comes before what the project sets.
    names_system = scenario.cluster.system != CLUSTER_OF_THREE.system
    scenario = scenario.on_system(options.system if names_system else completed.system)
    scenario = scenario.launched(completed.launcher, completed.jvm)
    if options.compatibility != OWN:
        if scenario.cluster.system != OWN_SYSTEM:
            raise UsageError(
                f"--compatibility is for our node: members of {scenario.cluster.system} have their own rules"
            )
        scenario = with_rules(scenario, require_rules(options.compatibility))
    runtime = runtime or settings.runtime_among(scenario.runtimes) or scenario.runtimes[0]
    if options.shrink and folder is not None:
        _require_no_search(folder.absolute())
    result = perform(scenario, runtime, seed, folder, options.planted, own, options.labels)
    show(result, as_json=as_json)
    if options.shrink and result.verdict is Verdict.INVALID:
        _shrink(Path(result.report.run), options.labels)
    return result.verdict.exit_status


# Campaigns and both runtimes are imported only for a run to be shrunk.


def _require_no_search(run: Path) -> None:
    from upheaval.cli.shrink import smallest_of

    if smallest_of(run).exists():
        raise UsageError(f"{smallest_of(run)} exists: give another --dir")


def _shrink(run: Path, labels: Sequence[tuple[str, str]]) -> None:
    from upheaval.campaign.shrink_text import RUN_FOLDER
    from upheaval.cli.shrink import shrink_beside, smallest_of

    with labelled(smallest_of(run) / RUN_FOLDER, labels):
        shrink_beside(run)


def run_exact_script(
    script: ExactScript, seed: int, folder: Path | None, labels: Sequence[tuple[str, str]] = (), *, as_json: bool
) -> int:
    """Run an exact script, print the messages that it is about, and how it went."""
    with new_run(folder, script.name) as path, labelled(path, labels):
        progress = Progress()
        progress.say(f"{script.name} on the simulated runtime, seed {seed}, in {path}")
        done = run_exact(script, seed, path, progress.say, progress.follow)
    if not as_json:
        for line in done.lines:
            print(line)
    show(done.result, as_json=as_json)
    return done.result.verdict.exit_status


@contextlib.contextmanager
def new_run(folder: Path | None, name: str) -> Iterator[Path]:
    """A folder that nothing is in yet. Raises `UsageError` for one that was given and has something in it, and
    `EnvironmentFault` for one that cannot be filled.
    """
    with run_folder(folder, name) as chosen:
        path = chosen.absolute()
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(f"{path} exists and is not an empty folder: give another --dir")
        cluster_file.require_room(path)
        yield path


def perform(
    scenario: Scenario,
    runtime: str,
    seed: int,
    folder: Path | None,
    planted: str | None = None,
    own: OwnCode | None = None,
    labels: Sequence[tuple[str, str]] = (),
) -> ScenarioResult:
    """Raises `UsageError` before anything is started when the scenario cannot run there."""
    if runtime not in scenario.runtimes:
        where = ", ".join(scenario.runtimes)
        place = f"scenario {scenario.name} does not run on the {runtime} runtime"
        if runtime != SIMULATED and (lines := scenario.not_live(runtime)):
            raise UsageError(f"{place} because of {', '.join(lines)}: use --runtime {where}")
        why = f" ({'; '.join(scenario.not_simulated)})" if runtime == SIMULATED and scenario.not_simulated else ""
        system = " with --system aeron" if any(isinstance(f, DatagramFault) for f in scenario.link_faults) else ""
        raise UsageError(f"{place}: use --runtime {where}{system}{why}")
    bug = None if planted is None else bug_named(planted)
    scenario = scenario.run_by(own)
    cluster_file.check(scenario.cluster.made(""), runtime)
    make_load = Load if own is None else load_maker(own.user, own.source)
    with new_run(folder, scenario.name) as path, labelled(path, labels):
        progress = Progress()
        progress.say(f"{scenario.name} on the {runtime} runtime, seed {seed}, in {path}")
        if bug is not None:
            progress.say(f"test build with a planted bug, {bug.name}: {bug.breaks}")
        stage = _stage(scenario, runtime, seed, path, planted, make_load, progress)
        return run_scenario(scenario, stage, runtime=runtime, seed=seed, say=progress.say, planted=planted, own=own)


def show(result: ScenarioResult, *, as_json: bool) -> None:
    """Print the verdict, and the digest as a note, or all of it as JSON."""
    if as_json:
        print(result.to_json(), end="", flush=True)
        return
    if result.digest is not None:
        note(f"digest: {result.digest}")
    print_report(result.report)


def _stage(
    scenario: Scenario,
    runtime: str,
    seed: int,
    path: Path,
    planted: str | None,
    make_load: LoadMaker,
    progress: Progress,
) -> Stage:
    # Each runtime is imported when it is used: one needs no sockets, the other no simulation.
    if runtime == SIMULATED:
        from upheaval.execution.simulated import SimulatedStage

        stage = SimulatedStage(scenario, seed, path, planted, make_load=make_load)
        progress.follow(stage.now_ns)
        return stage
    from upheaval.execution.live import LiveStage

    return LiveStage(scenario, runtime, seed, path, planted, make_load)
