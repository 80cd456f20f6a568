"""The commands `standby` and `promote` on the command line; what they do is imported when one of them is called."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add_commands(commands: Any, seconds: Callable[[str], float]) -> None:
    """`seconds` is the type of time-outs."""
    parser = commands.add_parser("standby", help="a standby beside a running cluster: start it, look at it, end it")
    parser.add_argument("--dir", required=True, type=Path, help="the cluster's folder")
    parser.add_argument(
        "action",
        nargs="?",
        choices=["start", "status", "wait", "snapshot", "replicate", "stop", "kill"],
        default="status",
        help="status is the default; wait returns when its services have what is committed now; snapshot leaves one to "
        "it; replicate has the members fetch its latest one",
    )
    parser.add_argument("--source", choices=["ANY", "LEADER", "FOLLOWER"], help="whom it copies from (default ANY)")
    parser.add_argument(
        "--replay-start",
        choices=["BEGINNING", "LATEST_SNAPSHOT"],
        help="where its copy of the log begins (default BEGINNING)",
    )
    parser.add_argument("--credentials", type=Path, metavar="FILE", help="its file of `upheaval credentials add`")
    parser.add_argument("--timeout", type=seconds, default=30.0, help="seconds for what has to be waited for")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(command=_standby)
    promote = commands.add_parser("promote", help="a new cluster whose members begin with what a standby has")
    promote.add_argument("--from", required=True, type=Path, dest="source_folder", metavar="STANDBY_FOLDER")
    promote.add_argument("--dir", required=True, type=Path, help="a new folder, for the new cluster")
    promote.add_argument("--members", type=int, default=3, help="1 to 9 (default 3)")
    promote.add_argument("--runtime", choices=["process", "docker"], help="processes (default) or containers")
    promote.add_argument("--service", help="default: that of the standby's cluster")
    promote.add_argument("--base-port", type=int, help="first of ten ports a member (default: free ones)")
    promote.add_argument("--timeout", type=seconds, default=30.0, help="seconds to wait for a leader")
    promote.add_argument("--no-start", action="store_true", help="make the folder, and leave the start to `up`")
    promote.set_defaults(command=_promote)


def _standby(options: argparse.Namespace) -> int:
    from upheaval.cli import standby

    return standby.standby(options)


def _promote(options: argparse.Namespace) -> int:
    from upheaval.cli import standby

    return standby.promote(options)
