"""The options of `doctor` and of what prepares clusters: `images`, `certificates`, `credentials`."""

from pathlib import Path
from typing import Any

from upheaval.cli.lazy import lazy
from upheaval.cli.parsing import Commands, Parser, add_cluster, add_json, described


def add_commands(commands: Commands) -> None:
    """Add the group."""
    commands.group("build")
    _add_images(commands)
    _add_certificates(commands)
    _add_credentials(commands)
    doctor = commands.add(
        "doctor",
        "say which Python runs, and whether the node and the simulation run compiled",
        lazy("upheaval.cli.doctor:doctor", as_json="json"),
    )
    add_json(doctor)


def _add_images(commands: Commands) -> None:
    images = _actions(commands.add("images", "list, build and check the container images"))
    listing = _action(images, "list", "list the images that the Docker engine has", "images:list_images")
    build = _action(images, "build", "build all images, or those named, unless they are current", "images:build")
    build.add_argument(
        "--offline", action="store_true", help="without a registry: make the base images here (debootstrap, go; root)"
    )
    build.add_argument("--base", metavar="IMAGE", help="another base image, for a single image")
    own = _action(images, "own", "build an image of a service of one's own, with its packages", "images:own")
    own.add_argument("folder", type=Path, metavar="FOLDER", help="that of the service, with requirements.txt")
    own.add_argument("--tag", required=True, metavar="IMAGE", help="the name of the image, such as bank:1")
    own.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="PATTERN",
        help="what of it is left out; may be repeated",
    )
    own.add_argument("--offline", action="store_true", help="as of `images build`, for the node's image")
    check = _action(
        images, "check", "check that images exist, are current, within the size limit, and start", "images:check"
    )
    for action in (build, check):
        action.add_argument(
            "names", nargs="*", metavar="NAME", help="names of images (default: all but aeron and node-test)"
        )
        action.add_argument("--aeron-version", metavar="VERSION", help="of the members in the image aeron")
    for action in (listing, build, own, check):
        add_json(action)


def _add_certificates(commands: Commands) -> None:
    actions = _actions(commands.add("certificates", "make a certificate authority and certificates, or reload them"))
    create = _action(
        actions,
        "create",
        "make certificates for members, clients and backups",
        "security:create",
        "dir",
        "members",
        "days",
        renew="renew",
    )
    create.add_argument("--dir", required=True, type=Path, metavar="FOLDER", help="where they are written")
    create.add_argument("--members", type=int, default=3, help="1 to 9 (default 3)")
    create.add_argument("--days", type=int, default=365, help="days of validity (default 365)")
    create.add_argument("--renew", action="store_true", help="new certificates of the authority that is there")
    _add_reload(actions)


def _add_credentials(commands: Commands) -> None:
    actions = _actions(commands.add("credentials", "add users to a credentials file, or reload it"))
    add = _action(
        actions, "add", "add a user to the credentials file", "security:add", "principal", "file", "out", "role"
    )
    add.add_argument("principal", help="the user's name")
    add.add_argument("--file", required=True, type=Path, help="the cluster's credentials file, made when missing")
    add.add_argument("--out", required=True, type=Path, help="the new file with the user's secret, for the client")
    add.add_argument(
        "--role", action="append", default=[], choices=["admin", "backup"], help="a role of the user; may be repeated"
    )
    _add_reload(actions)


def _add_reload(actions: Any) -> None:
    reload = _action(
        actions, "reload", "have running members reload certificates and credentials", "security:reload", "dir"
    )
    add_cluster(reload)


def _actions(parser: Parser) -> Any:
    return parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser, title="actions")


def _action(actions: Any, name: str, text: str, target: str, *fields: str, **named: str) -> Parser:
    action: Parser = actions.add_parser(name, help=text, description=described(text))
    action.set_defaults(command=lazy(f"upheaval.cli.{target}", *fields, **named))
    return action
