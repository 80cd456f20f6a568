"""The commands `backup` and `restore` on the command line; what they do is imported when one of them is called."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def add_commands(commands: Any, seconds: Callable[[str], float]) -> None:
    """`seconds` is the type of time-outs."""
    parser = commands.add_parser("backup", help="a backup beside a running cluster: start it, look at it, end it")
    add_actions(
        parser,
        seconds,
        ["start", "status", "wait", "stop", "kill"],
        "status is the default; wait returns when it has what is committed now",
    )
    parser.set_defaults(command=_backup)
    restore = commands.add_parser("restore", help="a new cluster whose members begin with what a backup has")
    add_new_cluster(restore, seconds, metavar="FOLDER", of="backup")
    restore.set_defaults(command=_restore)


def add_actions(parser: Any, seconds: Callable[[str], float], actions: Sequence[str], help_text: str) -> None:
    """What can be done to a node beside the members."""
    parser.add_argument("--dir", required=True, type=Path, help="the cluster's folder")
    parser.add_argument("action", nargs="?", choices=actions, default="status", help=help_text)
    parser.add_argument("--source", choices=["ANY", "LEADER", "FOLLOWER"], help="whom it copies from (default ANY)")
    parser.add_argument(
        "--replay-start",
        choices=["BEGINNING", "LATEST_SNAPSHOT"],
        help="where its copy of the log begins (default BEGINNING)",
    )
    parser.add_argument("--credentials", type=Path, metavar="FILE", help="its file of `upheaval credentials add`")
    parser.add_argument("--timeout", type=seconds, default=30.0, help="seconds for what has to be waited for")
    parser.add_argument("--json", action="store_true")


def add_new_cluster(parser: Any, seconds: Callable[[str], float], *, metavar: str, of: str) -> None:
    """What makes a new cluster from a folder; `of` is what kind of node it belonged to."""
    parser.add_argument("--from", required=True, type=Path, dest="source_folder", metavar=metavar)
    parser.add_argument("--dir", required=True, type=Path, help="a new folder for the new cluster")
    parser.add_argument("--members", type=int, default=3, help="1 to 9 (default 3)")
    parser.add_argument("--runtime", choices=["process", "docker"], help="processes (default) or containers")
    parser.add_argument("--service", help=f"default: that of the {of}'s cluster")
    parser.add_argument("--base-port", type=int, help="first of ten ports a member (default: free ones)")
    parser.add_argument("--timeout", type=seconds, default=30.0, help="seconds to wait for a leader")
    parser.add_argument("--no-start", action="store_true", help="make the folder, and leave the start to `up`")


def _backup(options: argparse.Namespace) -> int:
    from upheaval.cli import backup

    return backup.backup(options)


def _restore(options: argparse.Namespace) -> int:
    from upheaval.cli import backup

    return backup.restore(options)
