"""The commands `standby` and `promote` on the command line; what they do is imported when one of them is called."""

import argparse
from collections.abc import Callable
from typing import Any

from upheaval.cli.backup_commands import add_actions, add_new_cluster


def add_commands(commands: Any, seconds: Callable[[str], float]) -> None:
    """`seconds` is the type of time-outs."""
    parser = commands.add_parser("standby", help="a standby beside a running cluster: start it, look at it, end it")
    add_actions(
        parser,
        seconds,
        ["start", "status", "wait", "snapshot", "replicate", "stop", "kill"],
        "status is the default; wait returns when its services have what is committed now; snapshot leaves one to it; "
        "replicate has the members fetch its latest one",
    )
    parser.set_defaults(command=_standby)
    promote = commands.add_parser("promote", help="a new cluster whose members begin with what a standby has")
    add_new_cluster(promote, seconds, metavar="STANDBY_FOLDER", of="standby")
    promote.set_defaults(command=_promote)


def _standby(options: argparse.Namespace) -> int:
    from upheaval.cli import standby

    return standby.standby(options)


def _promote(options: argparse.Namespace) -> int:
    from upheaval.cli import standby

    return standby.promote(options)
