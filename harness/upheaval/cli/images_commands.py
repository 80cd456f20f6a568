"""The options of `upheaval images`. What they run is imported when it is asked for."""

import argparse
from typing import Any


def add_commands(commands: Any) -> None:
    """Add `images` to the command line."""
    parser = commands.add_parser("images", help="the container images: what is there, build them, check them")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(parser))
    listing = actions.add_parser("list", help="what the Docker engine has")
    build = actions.add_parser("build", help="build all, or those named; what is built from these sources stays")
    build.add_argument(
        "--offline", action="store_true", help="no registry: make the bases here (debootstrap, go; root)"
    )
    build.add_argument("--base", metavar="IMAGE", help="another base for the one image that is named")
    check = actions.add_parser("check", help="whether they are there, current, small enough, and do what they shall")
    for action in (build, check):
        action.add_argument("names", nargs="*", metavar="NAME")
    for action in (listing, build, check):
        action.add_argument("--json", action="store_true")
    parser.set_defaults(command=_images)


def _images(options: argparse.Namespace) -> int:
    from upheaval.cli import images

    actions = {"list": images.list_images, "build": images.build, "check": images.check}
    return actions[options.action](options)
