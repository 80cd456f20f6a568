"""The commands `certificates` and `credentials` on the command line; what they do is imported when one is called."""

import argparse
from pathlib import Path
from typing import Any


def add_commands(commands: Any) -> None:
    """Add both to the command line."""
    parser = commands.add_parser("certificates", help="make an authority and certificates; have them read again")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(parser))
    create = actions.add_parser("create", help="certificates for everybody of a cluster, of a new or a given authority")
    create.add_argument("--dir", required=True, type=Path, metavar="FOLDER", help="where they are put")
    create.add_argument("--members", type=int, default=3, help="1 to 9 (default 3)")
    create.add_argument("--days", type=int, default=365, help="how long they are good (default 365)")
    create.add_argument("--renew", action="store_true", help="new certificates of the authority that is there")
    create.set_defaults(command=_create)
    _add_reload(actions)
    credentials = commands.add_parser("credentials", help="the book of those who may connect to a cluster")
    ways = credentials.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(parser))
    _add_reload(ways)
    add = ways.add_parser("add", help="let somebody in: a line in the book, and a file with the secret for the client")
    add.add_argument("principal")
    add.add_argument("--book", required=True, type=Path, help="the cluster's file, made when it is missing")
    add.add_argument("--out", required=True, type=Path, help="the client's new file")
    add.add_argument("--role", action="append", default=[], choices=["admin", "backup"], help="what else it may do")
    add.set_defaults(command=_add)


def _add_reload(actions: Any) -> None:
    """The same of both: members read everything again."""
    reload = actions.add_parser("reload", help="have the running members read certificates and credentials again")
    reload.add_argument("--dir", required=True, type=Path, help="the cluster's folder")
    reload.set_defaults(command=_reload)


def _create(options: argparse.Namespace) -> int:
    from upheaval.cli import security

    return security.create(options.dir, options.members, options.days, renew=options.renew)


def _reload(options: argparse.Namespace) -> int:
    from upheaval.cli import security

    return security.reload(options.dir)


def _add(options: argparse.Namespace) -> int:
    from upheaval.cli import security

    return security.add(options.principal, options.book, options.out, options.role)
