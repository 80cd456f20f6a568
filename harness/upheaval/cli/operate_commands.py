"""The arguments of `upheaval stop`, `upgrade` and `replace`. Each imports what it needs when it is called."""

import argparse
from pathlib import Path
from typing import Any


def add_commands(commands: Any) -> None:
    """Add the commands of an operator on single members."""
    stop = commands.add_parser("stop", help="let one member end in an orderly way; the others go on")
    stop.add_argument("--dir", required=True, type=Path)
    stop.add_argument("member", type=int)
    stop.set_defaults(command=_stop)
    upgrade = commands.add_parser("upgrade", help="restart all members one after the other, of a new version")
    upgrade.add_argument("--dir", required=True, type=Path)
    upgrade.add_argument("--app-version", metavar="X.Y.Z", help="of the application, for members in processes")
    upgrade.add_argument("--image", help="for members in containers")
    upgrade.set_defaults(command=_upgrade)
    replace = commands.add_parser("replace", help="give a member that is down a new host, and wait until it caught up")
    replace.add_argument("--dir", required=True, type=Path)
    replace.add_argument("--seed-from", type=int, metavar="MEMBER", help="begin with a copy of what that one has")
    replace.add_argument("member", type=int)
    replace.set_defaults(command=_replace)


def _stop(options: argparse.Namespace) -> int:
    from upheaval.cli import operate

    return operate.stop(options.dir, options.member)


def _upgrade(options: argparse.Namespace) -> int:
    from upheaval.cli import operate

    return operate.upgrade(options)


def _replace(options: argparse.Namespace) -> int:
    from upheaval.cli import operate

    return operate.replace(options)
