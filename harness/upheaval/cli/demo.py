"""`upheaval demo`: a cluster under load loses its leader twice, to SIGKILL and to a partition, heals, and is judged.

A scenario like any other, made from the options; its run folder has the text and the page of the run.
"""

from pathlib import Path

from upheaval.cli.fault_commands import DemoOptions
from upheaval.cli.output import note
from upheaval.cli.report import write_report
from upheaval.cli.run import perform, show
from upheaval.cli.settings import read_settings
from upheaval.errors import UsageError
from upheaval.runtime_names import LIVE_RUNTIMES, PROCESS
from upheaval.scenario import parse_scenario
from upheaval.system import CLUSTER_OF_THREE

NAME = "demo"


def demo(options: DemoOptions) -> int:
    """Run and judge; the exit status is that of the verdict."""
    settings = read_settings()
    completed = settings.completed(options)
    members = CLUSTER_OF_THREE.members if completed.members is None else completed.members
    runtime = options.runtime or settings.runtime_among(LIVE_RUNTIMES) or PROCESS
    text = demo_text(members, options.components, options.sync_level, options.operations)
    system = completed.system if options.jar is None else _system_of(options.jar, options.system)
    scenario = parse_scenario(text, name=NAME, where=NAME).on_system(system)
    scenario = scenario.launched(completed.launcher, completed.jvm)
    result = perform(scenario, runtime, options.seed, options.dir, labels=options.labels)
    page = f"report: {write_report(Path(result.report.run))}"
    note(page) if options.json else print(page)
    show(result, as_json=options.json)
    return result.verdict.exit_status


def _system_of(jar: Path, system: str | None) -> str:
    """Aeron in the version of the jar. Raises `UsageError` where another system is wanted."""
    from upheaval.aeron_jars import take_jar

    if system is not None and system.partition(":")[0] != "aeron":
        raise UsageError(f"--jar is for members of Aeron, not for --system {system}: leave one of them out")
    of_jar = f"aeron:{take_jar(jar)}"
    if system not in (None, "aeron", of_jar):
        raise UsageError(f"{jar} is for --system {of_jar}, not for {system}")
    return of_jar


def demo_text(members: int, components: str, sync_level: int, operations: int) -> str:
    """The scenario. A cluster of fewer than three members cannot do without its leader, so it only loses it once."""
    lines = [
        "title The leader is killed and returns; the next one is cut off from its followers and returns",
        f"cluster members={members} components={components} sync-level={sync_level}",
        "workload rate=4000 slots=32 sessions=4 keys=16",
        f"wait operations {operations}",
        "inject killed kill leader",
    ]
    if members > 2:
        lines += ["wait leader other-than killed", f"wait operations {operations}"]
    lines += ["heal killed", "wait caught-up killed", f"wait operations {operations}"]
    if members > 2:
        lines += [
            "inject alone blackhole leader <-> followers",
            "wait leader other-than alone",
            f"wait operations {operations}",
            "heal alone",
            "wait caught-up alone",
            f"wait operations {operations}",
        ]
    return "\n".join(lines) + "\n"
