"""The arguments of `upheaval scenarios`, `planted`, `run` and `replay`.

Each command imports what it needs, so that `upheaval --help` and a wrong option answer at once.
"""

import argparse
from pathlib import Path
from typing import Any

RUNTIMES = ("simulated", "process", "docker")
_Commands = argparse._SubParsersAction  # argparse has no public name for it


def add_commands(commands: "_Commands[Any]") -> None:
    """Add the four commands."""
    listing = commands.add_parser("scenarios", help="the scenarios that come with upheaval")
    listing.add_argument("--json", action="store_true")
    listing.set_defaults(command=_scenarios)
    bugs = commands.add_parser("planted", help="the bugs that a test build of the node can have")
    bugs.add_argument("--json", action="store_true")
    bugs.set_defaults(command=_planted)
    run = commands.add_parser("run", help="run a scenario: start a cluster, break it, heal it, judge it")
    run.add_argument("name", metavar="NAME", help="see `upheaval scenarios`, or the path of a .scenario file")
    run.add_argument("--runtime", choices=RUNTIMES, help="default: the first that it runs on")
    run.add_argument("--seed", type=int, default=1)
    run.add_argument(
        "--planted", metavar="BUG", help="run a test build of the node that has this bug: see `upheaval planted`"
    )
    _add_output(run)
    run.set_defaults(command=_run)
    replay = commands.add_parser("replay", help="run again what made a run folder")
    replay.add_argument("run", type=Path, metavar="RUN", help="the folder of a run of a scenario")
    replay.add_argument("--runtime", choices=RUNTIMES, help="replay what happened there; default: where it ran")
    _add_output(replay)
    replay.set_defaults(command=_replay)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", type=Path, help="the run folder (default: a new one in ./runs)")
    parser.add_argument("--json", action="store_true", help="verdict, promises, run folder and digest as JSON")


def _scenarios(options: argparse.Namespace) -> int:
    from upheaval.cli import scenarios

    return scenarios.scenarios(as_json=options.json)


def _planted(options: argparse.Namespace) -> int:
    from upheaval.cli import planted

    return planted.planted(as_json=options.json)


def _run(options: argparse.Namespace) -> int:
    from upheaval.cli import run

    return run.run(
        options.name,
        runtime=options.runtime,
        seed=options.seed,
        folder=options.dir,
        as_json=options.json,
        planted=options.planted,
    )


def _replay(options: argparse.Namespace) -> int:
    from upheaval.cli import replay

    return replay.replay(options.run, runtime=options.runtime, target=options.dir, as_json=options.json)
