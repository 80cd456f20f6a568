"""The options of the commands that break clusters: `demo`, `run`, `replay`, `track-record`, `campaign`, `kill`, and two
lists.
"""

import argparse
from pathlib import Path

from upheaval.cli.lazy import lazy
from upheaval.cli.parsing import (
    COMPONENTS,
    LAYOUTS,
    LIVE_RUNTIMES,
    RUNTIMES,
    SYNC_LEVELS,
    Commands,
    above_zero,
    add_cluster,
    add_json,
    add_member,
    add_model,
    add_system,
    bug,
    recorded_run,
)


def add_commands(commands: Commands) -> None:
    """Add the group."""
    commands.group("faults")
    _add_demo(commands)
    run = commands.add(
        "run",
        "run a scenario: start a cluster, break it, heal it, judge it",
        lazy("upheaval.cli.run:run"),
    )
    run.add_argument("name", metavar="NAME", help="one of `upheaval scenarios`, or the path of a .scenario file")
    run.add_argument("--runtime", choices=RUNTIMES, help="default: the first that the scenario runs on")
    run.add_argument("--seed", type=int, default=1, help="of the schedule and the workload (default 1)")
    run.add_argument(
        "--planted", type=bug, metavar="BUG", help="use a test build with this bug, one of `upheaval planted`"
    )
    add_system(run)
    _add_own_code(run)
    _add_output(run)
    replay = commands.add(
        "replay",
        "run again what a run folder recorded",
        lazy("upheaval.cli.replay:replay", "run", runtime="runtime", target="dir", as_json="json"),
    )
    replay.add_argument("run", type=recorded_run, metavar="RUN", help="the folder of a run of a scenario")
    replay.add_argument(
        "--runtime", choices=RUNTIMES, help="replay the recorded schedule there (default: where it ran)"
    )
    _add_output(replay)
    _add_campaign(commands)
    scenarios = commands.add(
        "scenarios", "list the built-in scenarios", lazy("upheaval.cli.scenarios:scenarios", as_json="json")
    )
    add_json(scenarios)
    planted = commands.add(
        "planted", "list the bugs that a test build can have", lazy("upheaval.cli.planted:planted", as_json="json")
    )
    add_json(planted)
    _add_track_record(commands)
    kill = commands.add(
        "kill",
        "SIGKILL a member, or one component of it",
        lazy("upheaval.cli.members:kill", "dir", "member", "component"),
    )
    add_cluster(kill)
    kill.add_argument("--component", choices=COMPONENTS, help="only this one, of a member with --components split")
    add_member(kill)


def _add_track_record(commands: Commands) -> None:
    record = commands.add(
        "track-record",
        "run known bugs of Aeron, on a version that has each and on versions that have not",
        lazy("upheaval.cli.track_record:track_record"),
    )
    record.add_argument("issues", nargs="*", type=above_zero, metavar="ISSUE", help="issues of Aeron's (default: all)")
    record.add_argument("--runtime", choices=LIVE_RUNTIMES, default="process", help="processes (default) or containers")
    record.add_argument("--tries", type=above_zero, default=3, metavar="N", help="runs on each version (default 3)")
    record.add_argument("--dir", type=Path, metavar="FOLDER", help="where the run folders go (default: ./runs)")
    record.add_argument("--write", type=Path, metavar="FILE", help="write the rows into such a page, too")
    add_json(record)


def _add_demo(commands: Commands) -> None:
    demo = commands.add(
        "demo", "kill one leader under load, isolate the next, heal, judge the run", lazy("upheaval.cli.demo:demo")
    )
    demo.add_argument("--dir", type=Path, help="the run folder (default: a new one in ./runs)")
    demo.add_argument("--members", type=int, default=3, help="1 to 9 (default 3)")
    demo.add_argument("--runtime", choices=LIVE_RUNTIMES, default="process", help="processes (default) or containers")
    add_system(demo)
    demo.add_argument(
        "--components", choices=LAYOUTS, default="together", help="one process a member (default), or one a component"
    )
    demo.add_argument(
        "--sync-level", type=int, choices=SYNC_LEVELS, default=0, help="Aeron's file.sync.level (default 0)"
    )
    demo.add_argument("--seed", type=int, default=1, help="of the workload (default 1)")
    demo.add_argument(
        "--operations", type=int, default=2000, help="acknowledged operations in each of five phases (default 2000)"
    )


def _add_own_code(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--service", help="another service: workbench, ledger, timers, or module:Class from the current folder"
    )
    parser.add_argument(
        "--user", metavar="CLASS", help="module:Class of the locust users that ask a service of one's own"
    )

    add_model(parser)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", type=Path, help="the run folder (default: a new one in ./runs)")
    add_json(parser, "print verdict, promises, run folder and digest as JSON")


def _add_campaign(commands: Commands) -> None:
    campaign = commands.add(
        "campaign",
        "run many seeds, each with another cluster and other faults: in virtual time, or one after the other live",
        lazy("upheaval.cli.campaign:campaign"),
    )
    campaign.add_argument("--runtime", choices=RUNTIMES, default=RUNTIMES[0], help="where (default simulated)")
    add_system(campaign)
    campaign.add_argument("--seeds", default="1..100", metavar="A..B", help="both included (default 1..100)")
    campaign.add_argument("--workers", type=int, default=1, help="how many processes (default 1)")
    _add_own_code(campaign)
    add_json(campaign, "print the summary as JSON")
    campaign.add_argument("--out", type=Path, metavar="FOLDER", help="write a line of JSON per seed, and the summary")
    campaign.add_argument("--dir", type=Path, help="keep the run folder, for a single seed")
    campaign.add_argument(
        "--shrink",
        action="store_true",
        help="stop at the first seed that fails, and make it smaller as long as it does",
    )
    campaign.add_argument(
        "--canary",
        action="store_true",
        help="run seeds with a planted bug, too, drawn by the first seed: one that is not found is a failure",
    )
    campaign.add_argument(
        "--planted", type=bug, metavar="BUG", help="use a test build with this bug; stop when a seed finds it"
    )
