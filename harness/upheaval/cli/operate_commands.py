"""The commands of an operator, and their options: on members, on the whole cluster, and on what runs beside it."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from upheaval.cli.parsing import (
    Commands,
    MemberOptions,
    age,
    base_port_option,
    cluster_option,
    json_option,
    leader_timeout_option,
    member_argument,
    seconds,
)
from upheaval.runtime_names import LIVE_RUNTIMES
from upheaval_chaos.options import option

_ADMIN_COMMANDS: Final = {
    "snapshot": "take a snapshot on every member",
    "suspend": "stop accepting client requests",
    "resume": "accept client requests again",
    "shutdown": "take a snapshot and end all members with status 0",
    "abort": "end all members without a snapshot",
}


@dataclass(frozen=True)
class UpgradeOptions:
    dir: Path = cluster_option()
    app_version: str | None = option(
        "--app-version", metavar="X.Y.Z", help="new version of the application, for members in processes"
    )
    image: str | None = option("--image", help="new image, for members in containers")
    to: str | None = option("--to", metavar="SYSTEM", help="new version of members of Aeron, such as aeron:1.51.0")
    json: bool = json_option()


@dataclass(frozen=True)
class ReplaceOptions:
    dir: Path = cluster_option()
    seed_from: int | None = option("--copy-from", metavar="MEMBER", help="start with a copy of that member's files")
    member: int = member_argument()
    json: bool = json_option()


@dataclass(frozen=True)
class AdminOptions:
    """Of the commands to a whole cluster; `word` is the command."""

    word: str
    dir: Path = cluster_option()
    timeout: float = option(
        "--timeout", type=seconds, default=30.0, help="seconds until it has taken effect (default 30)"
    )
    json: bool = json_option()


@dataclass(frozen=True)
class CompanionOptions:
    """Of `backup` and `standby`, nodes beside the members; `action` is what is done to it."""

    dir: Path = cluster_option()
    action: str = option(nargs="?", default="status")
    source: str | None = option(
        "--source", choices=["ANY", "LEADER", "FOLLOWER"], help="which members to copy from (default ANY)"
    )
    replay_start: str | None = option(
        "--replay-start",
        choices=["BEGINNING", "LATEST_SNAPSHOT"],
        help="where the copy of the log begins (default BEGINNING)",
    )
    credentials: Path | None = option("--credentials", metavar="FILE", help="its file from `upheaval credentials add`")
    timeout: float = option("--timeout", type=seconds, default=30.0, help="seconds to wait for the effect (default 30)")
    json: bool = json_option()


@dataclass(frozen=True)
class NewClusterOptions:
    """Of `restore` and `promote`, which make a new cluster from the folder of a node."""

    source_folder: Path = option("--from", required=True, metavar="FOLDER")
    dir: Path = option("--dir", required=True, help="a new folder for the new cluster")
    members: int = option("--members", default=3, help="1 to 9 (default 3)")
    runtime: str | None = option("--runtime", choices=LIVE_RUNTIMES, help="processes (default) or containers")
    service: str | None = option("--service")
    base_port: int | None = base_port_option()
    timeout: float = leader_timeout_option()
    no_start: bool = option("--no-start", help="only make the folder; `upheaval up` starts it")
    json: bool = json_option()


@dataclass(frozen=True)
class CleanOptions:
    runs: float | None = option(
        "--runs", type=age, metavar="OLDER_THAN", help="also remove run folders older than this, such as 7d"
    )
    dir: Path | None = option("--dir", metavar="FOLDER", help="where the run folders are (default: ./runs)")
    dry_run: bool = option("--dry-run", help="only show what there is")
    json: bool = json_option("print one object per line")


@dataclass(frozen=True)
class ToolOptions:
    """Of `tool`; its help is that of ClusterTool."""

    json: bool = option("--json")
    timeout: str | None = option("--timeout", metavar="SECONDS")
    archive: str | None = option("--archive", metavar="DIR")
    wants_help: bool = option("-h", "--help")
    words: tuple[str, ...] = option(nargs=argparse.REMAINDER)


def add_commands(commands: Commands) -> None:
    """Add the group."""
    commands.group("operate")
    commands.add("start", "start a member's stopped components", MemberOptions, "members:start")
    commands.add("stop", "stop one member gracefully", MemberOptions, "operate:stop")
    commands.add("upgrade", "restart members one by one, with a new version", UpgradeOptions, "operate:upgrade")
    commands.add(
        "replace",
        "give a stopped member a new host and wait until it has caught up",
        ReplaceOptions,
        "operate:replace",
    )
    for word, text in _ADMIN_COMMANDS.items():
        commands.add(word, text, AdminOptions, "members:admin_command", word=word)
    _add_beside(commands)
    commands.add(
        "clean",
        "remove what abandoned runs left: processes, containers, temporary folders",
        CleanOptions,
        "clean:clean",
    )
    commands.add(
        "tool",
        "describe, list-members, recovery-plan and the other commands of Aeron's ClusterTool",
        ToolOptions,
        "tool:tool",
        add_help=False,
    )


def _add_beside(commands: Commands) -> None:
    """The commands on backups and standbys, and on what is made from them."""
    commands.add(
        "backup",
        "run a backup beside a cluster",
        CompanionOptions,
        "backup:backup",
        action={
            "choices": ["start", "status", "wait", "stop", "kill"],
            "help": "wait returns when the backup has all that is committed now (default status)",
        },
    )
    _add_new_cluster(commands, "restore", "backup", "backup:restore")
    commands.add(
        "standby",
        "run a standby beside a cluster",
        CompanionOptions,
        "standby:standby",
        action={
            "choices": ["start", "status", "wait", "snapshot", "replicate", "stop", "kill"],
            "help": "wait returns when the standby's services have applied all that is committed now; snapshot takes "
            "one on the standby; replicate copies its latest one to the members (default status)",
        },
    )
    _add_new_cluster(commands, "promote", "standby", "standby:promote")


def _add_new_cluster(commands: Commands, name: str, of: str, target: str) -> None:
    commands.add(
        name,
        f"make a new cluster from a {of}",
        NewClusterOptions,
        target,
        source_folder={"help": f"the folder of the {of}"},
        service={"help": f"default: that of the {of}'s cluster"},
    )
