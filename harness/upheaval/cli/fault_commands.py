"""The commands that break clusters, and their options: `demo`, `run`, `replay`, `track-record`, `campaign`, `shrink`,
`when`, `fixed`, `kill`, and two lists.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from upheaval.cli.parsing import (
    COMPONENTS,
    LAYOUTS,
    SYNC_LEVELS,
    Commands,
    JsonOptions,
    MemberOptions,
    above_zero,
    bug,
    cluster_option,
    engine_option,
    json_option,
    jvm_option,
    labels_option,
    launcher_option,
    master_option,
    member_argument,
    model_option,
    newest_recorded_run,
    recorded_run,
    schema_option,
    seconds,
    seed,
    system_option,
)
from upheaval.runtime_names import LIVE_RUNTIMES, RUNTIMES
from upheaval_chaos.options import option

SEARCHES: Final = ("uniform", "delivery", "chains", "moments")
"""Those of `campaign.searches`, which the help must not import."""


def _live_runtime() -> Any:
    return option("--runtime", choices=LIVE_RUNTIMES, help="processes (default) or containers")


def _new_run_folder() -> Any:
    return option("--dir", help="the run folder (default: a new one in ./runs)")


def _result_as_json() -> Any:
    return json_option("print verdict, promises, run folder and digest as JSON")


def _service() -> Any:
    return option(
        "--service", help="another service: workbench, ledger, timers, or module:Class from the current folder"
    )


def _compatibility() -> Any:
    return option(
        "--compatibility",
        metavar="RULES",
        default="upheaval",
        help="aeron: our node with Aeron's rules where they differ; or some of them, as E3,E7 (default upheaval)",
    )


def _search() -> Any:
    return option(
        "--search",
        choices=SEARCHES,
        default=SEARCHES[0],
        help="delivery: with priorities of the channels between members; chains: with faults that begin while others "
        "heal; moments: when members enter states (default uniform)",
    )


def _jobs() -> Any:
    return option("--jobs", type=above_zero, default=1, metavar="N", help="how many processes (default 1)")


def _recorded_run(which: str) -> Any:
    text = f"the folder of a {which} (default: the newest run in ./runs)"
    return option(nargs="?", type=recorded_run, metavar="RUN", fallback=newest_recorded_run, help=text)


def _user() -> Any:
    return option("--user", metavar="CLASS", help="module:Class of the locust users that call your service")


DAMAGED_PARTS = ("last-page", "hole", "bytes")
"""The values of `upheaval_chaos.file_faults.Part`."""


@dataclass(frozen=True)
class DemoOptions:
    dir: Path | None = _new_run_folder()
    members: int | None = option("--members", help="1 to 9 (default 3)")
    runtime: str | None = _live_runtime()
    system: str | None = system_option()
    launcher: str | None = launcher_option()
    jvm: str | None = jvm_option()
    jar: Path | None = option("--jar", metavar="PATH", help="Aeron's jar aeron-all, kept for later; implies --system")
    components: str = option(
        "--components",
        choices=LAYOUTS,
        default="together",
        help="one process per member (default), or one per component",
    )
    sync_level: int = option("--sync-level", choices=SYNC_LEVELS, default=0, help="Aeron's file.sync.level (default 0)")
    seed: int = option("--seed", type=seed, default=1, help="seed of the workload (default 1)")
    operations: int = option(
        "--operations", default=2000, help="acknowledged operations in each of five phases (default 2000)"
    )
    labels: tuple[tuple[str, str], ...] = labels_option()
    json: bool = json_option()


@dataclass(frozen=True)
class RunOptions:
    name: str = option(metavar="NAME", help="one of `upheaval scenarios`, or the path of a .scenario file")
    runtime: str | None = option("--runtime", choices=RUNTIMES, help="default: the first that the scenario runs on")
    seed: int = option("--seed", type=seed, default=1, help="of the schedule and the workload (default 1)")
    planted: str | None = option(
        "--planted", type=bug, metavar="BUG", help="use a test build with this bug, one of `upheaval planted`"
    )
    system: str | None = system_option()
    compatibility: str = _compatibility()
    launcher: str | None = launcher_option()
    jvm: str | None = jvm_option()
    service: str | None = _service()
    user: str | None = _user()
    model: str | None = model_option()
    schema: str | None = schema_option()
    dir: Path | None = _new_run_folder()
    shrink: bool = option(
        "--shrink",
        help="if it breaks a promise, make it simpler as long as it fails in the same way, as `upheaval shrink` does",
    )
    labels: tuple[tuple[str, str], ...] = labels_option()
    json: bool = _result_as_json()


@dataclass(frozen=True)
class ReplayOptions:
    run: Path = _recorded_run("run of a scenario")
    runtime: str | None = option(
        "--runtime", choices=RUNTIMES, help="replay the recorded schedule there (default: where it ran)"
    )
    until: float | None = option(
        "--until",
        type=seconds,
        metavar="S",
        help="play a simulated run up to that second after its start, and print the state of its members",
    )
    dir: Path | None = _new_run_folder()
    json: bool = _result_as_json()


@dataclass(frozen=True)
class CampaignOptions:
    runtime: str | None = option("--runtime", choices=RUNTIMES, help="where (default simulated)")
    system: str | None = system_option()
    compatibility: str = _compatibility()
    launcher: str | None = launcher_option()
    jvm: str | None = jvm_option()
    seeds: str = option(
        "--seeds", default="1..100", metavar="A..B", help="A..B with both included, or one number (default 1..100)"
    )
    search: str = _search()
    workers: int = option("--workers", default=1, help="how many processes (default 1)")
    engine: str = engine_option()
    master: str | None = master_option()
    lake: str | None = option("--lake", help="with --engine spark and --out: write outcomes and tapes to this lake")
    service: str | None = _service()
    user: str | None = _user()
    model: str | None = model_option()
    schema: str | None = schema_option()
    labels: tuple[tuple[str, str], ...] = labels_option()
    json: bool = json_option("print the summary as JSON")
    out: Path | None = option("--out", metavar="FOLDER", help="write a line of JSON per seed, and the summary")
    dir: Path | None = option("--dir", help="keep the run folder, for a single seed")
    shrink: bool = option(
        "--shrink", help="stop at the first seed that fails, and make it simpler as long as it fails in the same way"
    )
    canary: bool = option(
        "--canary",
        help="also run seeds with a planted bug, which the first seed draws; fail if none finds it",
    )
    planted: str | None = option(
        "--planted", type=bug, metavar="BUG", help="use a test build with this bug; stop when a seed finds it"
    )


@dataclass(frozen=True)
class ZooOptions:
    names: tuple[str, ...] = option(nargs="*", type=bug, metavar="BUG", help="planted bugs (default: all)")
    budget: float = option(
        "--budget",
        type=seconds,
        default=300.0,
        metavar="S",
        help="processor seconds in which a search must find its bug (default 300)",
    )
    repeats: int = option(
        "--repeats", type=above_zero, default=1, metavar="N", help="searches for each bug (default 1)"
    )
    first_seed: int = option(
        "--first-seed", type=above_zero, default=1, metavar="SEED", help="seed of the first search (default 1)"
    )
    search: str = _search()
    shrink: bool = option("--shrink", help="make the seed that found each bug simpler, and say how small it becomes")
    jobs: int = _jobs()
    out: Path | None = option("--out", metavar="FOLDER", help="keep the searches here, and continue those found here")
    json: bool = json_option("print the rows as JSON")


@dataclass(frozen=True)
class ShrinkOptions:
    run: Path = _recorded_run("failed run or seed")
    runs: int | None = option(
        "--runs",
        type=above_zero,
        metavar="N",
        help="start no try after N runs (default 300); 10 or 20 more runs measure how often the scenario fails",
    )
    seconds: float | None = option(
        "--seconds",
        type=seconds,
        metavar="S",
        help="start no try after S seconds of search, for plan and scenario together (default: no limit)",
    )
    jobs: int = _jobs()
    out: Path | None = option("--out", metavar="FOLDER", help="where the smallest run goes (default: RUN-smallest)")
    json: bool = json_option("print what is left as JSON")


@dataclass(frozen=True)
class CarryOptions:
    run: Path = option(
        type=recorded_run, metavar="RUN", help="a failed simulated run of a scenario, or a failed seed after `shrink`"
    )
    system: str = option("--system", default="aeron", metavar="aeron[:VERSION]", help="the members (default aeron)")
    tries: int = option("--tries", type=above_zero, default=3, metavar="N", help="runs on real members (default 3)")
    out: Path | None = option("--out", metavar="FOLDER", help="where the runs go (default: a new one in ./runs)")
    json: bool = json_option()


@dataclass(frozen=True)
class WhenOptions:
    run: Path = _recorded_run("simulated run that is invalid")
    points: int | None = option("--points", type=above_zero, metavar="N", help="moments of the run (default 16)")
    timings: int | None = option("--timings", type=above_zero, metavar="N", help="runs from each moment (default 32)")
    jobs: int = _jobs()
    json: bool = json_option("print promise and shares as JSON")


@dataclass(frozen=True)
class FixedOptions:
    promise: str = option(metavar="PROMISE", help="the id of the promise that was broken")
    since: tuple[Path, ...] = option(
        nargs="+", metavar="CAMPAIGN", help="folders of campaigns after the fix, or their seeds.jsonl"
    )
    before: Path = option("--before", required=True, metavar="CAMPAIGN", help="the campaign that showed the failure")
    rule: str | None = option("--rule", metavar="RULE", help="only failures with this rule in their fingerprint")
    json: bool = json_option()


TRIES: Final = 3
"""Runs of a known bug on each version."""


@dataclass(frozen=True)
class TrackRecordOptions:
    issues: tuple[str, ...] = option(nargs="*", metavar="ISSUE", help="numbers of Aeron's issues (default: all)")
    runtime: str | None = _live_runtime()
    tries: int | None = option("--tries", type=above_zero, metavar="N", help=f"runs on each version (default {TRIES})")
    versions: str | None = option(
        "--versions",
        metavar="V,..",
        help="versions of Aeron, or `all` pinned ones (default: one that has the bug, and some that have not)",
    )
    dir: Path | None = option("--dir", metavar="FOLDER", help="where the run folders go (default: ./runs)")
    lake: str | None = option("--lake", help="run nothing, and take the runs of a lake")
    out: Path | None = option(
        "-o",
        "--out",
        former=["--write"],
        metavar="FILE",
        help="also write the rows into a page like docs/track-record.md",
    )
    json: bool = json_option()


@dataclass(frozen=True)
class KillOptions:
    dir: Path = cluster_option()
    component: str | None = option(
        "--component", choices=COMPONENTS, help="only this component, of a member with --components split"
    )
    member: int = member_argument()
    json: bool = json_option()


@dataclass(frozen=True)
class DamageOptions:
    dir: Path = cluster_option()
    member: int = member_argument()
    part: str = option(choices=DAMAGED_PARTS, help="what to change in its log")
    json: bool = json_option()


def add_commands(commands: Commands) -> None:
    """Add the group."""
    commands.group("faults")
    commands.add(
        "demo",
        "kill one leader under load, isolate the next, heal, judge the run",
        DemoOptions,
        "demo:demo",
        prints_verdict=True,
    )
    commands.add(
        "run",
        "run a scenario: start a cluster, break it, heal it, judge it",
        RunOptions,
        "run:run",
        prints_verdict=True,
    )
    commands.add("replay", "run again what a run folder recorded", ReplayOptions, "replay:replay", prints_verdict=True)
    commands.add(
        "campaign",
        "run many seeds, each with another cluster and other faults: in virtual time, or one after the other live",
        CampaignOptions,
        "campaign:campaign",
    )
    commands.add(
        "shrink",
        "make a failed run or seed simpler as long as it fails in the same way: its cluster, load, faults and settings",
        ShrinkOptions,
        "shrink:shrink",
    )
    commands.add(
        "carry",
        "run the schedule of a simulated failure on members of Aeron, and say how often its promise is broken there",
        CarryOptions,
        "carry:carry",
    )
    commands.add(
        "when",
        "show when the failure of a run became inevitable, by reruns from several moments with other timings",
        WhenOptions,
        "when:when",
    )
    commands.add(
        "fixed",
        "say whether the seeds of campaigns are enough to show that a failure is gone",
        FixedOptions,
        "fixed:fixed",
    )
    commands.add("scenarios", "list the built-in scenarios", JsonOptions, "scenarios:scenarios")
    commands.add("planted", "list the bugs that a test build can have", JsonOptions, "planted:planted")
    commands.add("zoo", "search for planted bugs, and say which ones campaigns find", ZooOptions, "zoo:zoo")
    commands.add(
        "track-record",
        "run known bugs of Aeron, each on a version that has it and on versions that do not",
        TrackRecordOptions,
        "track_record:track_record",
    )
    commands.add("kill", "kill (SIGKILL) a member, or one component of it", KillOptions, "members:kill")
    commands.add("damage", "damage the log of a stopped member", DamageOptions, "members:damage")
    commands.add(
        "purge",
        "remove the log of a stopped member before its latest snapshot, in whole segments",
        MemberOptions,
        "members:purge",
    )
    commands.add("wipe", "remove all files of a stopped member", MemberOptions, "members:wipe")
