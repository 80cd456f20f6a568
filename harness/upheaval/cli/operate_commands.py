"""The options of the commands of an operator: on members, on the whole cluster, and on what runs beside it."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from upheaval.cli.lazy import lazy
from upheaval.cli.parsing import LIVE_RUNTIMES, Commands, add_cluster, add_json, add_member, age, seconds

_ADMIN_COMMANDS = {
    "snapshot": "take a snapshot on every member",
    "suspend": "stop accepting client requests",
    "resume": "accept client requests again",
    "shutdown": "take a snapshot and end all members with status 0",
    "abort": "end all members without a snapshot",
}


def add_commands(commands: Commands) -> None:
    """Add the group."""
    commands.group("operate")
    _add_members(commands)
    for word, text in _ADMIN_COMMANDS.items():
        command = commands.add(word, text, lazy("upheaval.cli.members:admin_command", "dir", "word", "timeout"))
        add_cluster(command)
        command.add_argument(
            "--timeout", type=seconds, default=30.0, help="seconds until it has taken effect (default 30)"
        )
        command.set_defaults(word=word)
    _add_beside(commands)
    clean = commands.add(
        "clean",
        "remove what abandoned runs left: processes, containers, temporary folders",
        lazy("upheaval.cli.clean:clean"),
    )
    clean.add_argument("--runs", type=age, metavar="OLDER_THAN", help="and run folders that old, such as 7d")
    clean.add_argument("--dir", default="runs", metavar="FOLDER", help="where these lie (default runs)")
    clean.add_argument("--dry-run", action="store_true", help="only show what there is")
    add_json(clean, "print one object a line")
    tool = commands.add(
        "tool",
        "describe, list-members, recovery-plan and the other commands of Aeron's ClusterTool",
        lazy("upheaval.cli.tool:tool"),
        add_help=False,
    )
    # The help of `tool` is that of ClusterTool.
    tool.add_argument("--json", action="store_true")
    tool.add_argument("--timeout", metavar="SECONDS")
    tool.add_argument("--archive", metavar="DIR")
    tool.add_argument("-h", "--help", action="store_true", dest="wants_help")
    tool.add_argument("words", nargs=argparse.REMAINDER)


def _add_members(commands: Commands) -> None:
    """The commands on single members of a cluster whose other members continue."""
    start = commands.add(
        "start", "start a member's stopped components", lazy("upheaval.cli.members:start", "dir", "member")
    )
    stop = commands.add("stop", "stop one member gracefully", lazy("upheaval.cli.operate:stop", "dir", "member"))
    for command in (start, stop):
        add_cluster(command)
        add_member(command)
    upgrade = commands.add("upgrade", "rolling restart, with a new version", lazy("upheaval.cli.operate:upgrade"))
    add_cluster(upgrade)
    upgrade.add_argument("--app-version", metavar="X.Y.Z", help="of the application, for members in processes")
    upgrade.add_argument("--image", help="for members in containers")
    replace = commands.add(
        "replace",
        "give a stopped member a new host and wait until it has caught up",
        lazy("upheaval.cli.operate:replace"),
    )
    add_cluster(replace)
    replace.add_argument(
        "--copy-from", type=int, dest="seed_from", metavar="MEMBER", help="start with a copy of that member's files"
    )
    add_member(replace)


def _add_beside(commands: Commands) -> None:
    """The commands on backups and standbys, and on what is made from them."""
    backup = commands.add("backup", "run a backup beside a cluster", lazy("upheaval.cli.backup:backup"))
    _add_actions(
        backup,
        ["start", "status", "wait", "stop", "kill"],
        "wait returns when the backup has all that is committed now (default status)",
    )
    restore = commands.add("restore", "make a new cluster from a backup", lazy("upheaval.cli.backup:restore"))
    _add_new_cluster(restore, of="backup")
    standby = commands.add("standby", "run a standby beside a cluster", lazy("upheaval.cli.standby:standby"))
    _add_actions(
        standby,
        ["start", "status", "wait", "snapshot", "replicate", "stop", "kill"],
        "wait returns when the standby's services have applied all that is committed now; snapshot takes one on the "
        "standby; replicate copies its latest one to the members (default status)",
    )
    promote = commands.add("promote", "make a new cluster from a standby", lazy("upheaval.cli.standby:promote"))
    _add_new_cluster(promote, of="standby")


def _add_actions(parser: argparse.ArgumentParser, actions: Sequence[str], help_text: str) -> None:
    """What can be done to a node beside the members."""
    add_cluster(parser)
    parser.add_argument("action", nargs="?", choices=actions, default="status", help=help_text)
    parser.add_argument("--source", choices=["ANY", "LEADER", "FOLLOWER"], help="whom to copy from (default ANY)")
    parser.add_argument(
        "--replay-start",
        choices=["BEGINNING", "LATEST_SNAPSHOT"],
        help="where the copy of the log begins (default BEGINNING)",
    )
    parser.add_argument("--credentials", type=Path, metavar="FILE", help="its file of `upheaval credentials add`")
    parser.add_argument("--timeout", type=seconds, default=30.0, help="seconds to wait for the effect (default 30)")
    add_json(parser)


def _add_new_cluster(parser: argparse.ArgumentParser, *, of: str) -> None:
    """What makes a new cluster from a folder; `of` is what kind of node it belonged to."""
    parser.add_argument(
        "--from", required=True, type=Path, dest="source_folder", metavar="FOLDER", help=f"the folder of the {of}"
    )
    parser.add_argument("--dir", required=True, type=Path, help="a new folder for the new cluster")
    parser.add_argument("--members", type=int, default=3, help="1 to 9 (default 3)")
    parser.add_argument("--runtime", choices=LIVE_RUNTIMES, help="processes (default) or containers")
    parser.add_argument("--service", help=f"default: that of the {of}'s cluster")
    parser.add_argument("--base-port", type=int, help="first of ten ports a member (default: free ones)")
    parser.add_argument("--timeout", type=seconds, default=30.0, help="seconds to wait for a leader (default 30)")
    parser.add_argument("--no-start", action="store_true", help="only make the folder; `upheaval up` starts it")
