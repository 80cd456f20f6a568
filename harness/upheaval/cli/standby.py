"""`upheaval standby` and `upheaval promote`: a standby beside a running cluster, and a cluster of its own from it."""

from dataclasses import asdict
from pathlib import Path
from typing import Final

from upheaval.cli import backup
from upheaval.cli.answers import answer
from upheaval.cli.operate_commands import CompanionOptions, NewClusterOptions
from upheaval.cluster import control
from upheaval.errors import UsageError
from upheaval.records import STANDBY, AdminCommand
from upheaval.runtimes.opening import open_cluster
from upheaval_node.errors import DecodeError
from upheaval_node.files import layout
from upheaval_node.files.mark_file import ClusterMarkHeader, decode_mark_file
from upheaval_node.protocol.cluster_mark_messages import ClusterComponentType
from upheaval_node.runtime.mark_lock import is_locked
from upheaval_node.types import NULL_VALUE

NAME: Final = f"{STANDBY}-0"
_COMMANDS: Final = {"snapshot": AdminCommand.STANDBY_SNAPSHOT, "replicate": AdminCommand.REPLICATE_STANDBY_SNAPSHOT}


def standby(options: CompanionOptions) -> int:
    """One action on the standby of a cluster."""
    command = _COMMANDS.get(options.action)
    if command is None:
        return backup.companion(options, NAME)
    for name in backup.OF_START:
        if getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} is an option of `upheaval standby start` only")
    with open_cluster(options.dir) as cluster:
        if command == AdminCommand.STANDBY_SNAPSHOT and not cluster.companion(NAME).is_running():
            raise UsageError(f"{NAME} is not running: standby snapshots need a running standby")
        record = control.perform(cluster, command, options.timeout)
    answer(str(record.proof), asdict(record), as_json=options.json)
    return 0


def promote(options: NewClusterOptions) -> int:
    """A new cluster from a standby that was stopped in good order, started unless that is left for later."""
    from upheaval.operations.restore import bring

    bring(options.source_folder.absolute())
    require_promotable(options.source_folder)
    return backup.restore(options)


def require_promotable(folder: Path) -> None:
    """Raises `UsageError` with one line for a folder that is none of a standby, or of one that did not end in order."""
    marks = [folder / layout.CLUSTER_MARK, folder / layout.service_mark(0)]
    if not all(mark.is_file() for mark in marks):
        raise UsageError(f"{folder} is not the folder of a standby: give one such as RUN/{NAME}")
    headers = [_header(mark) for mark in marks]
    if headers[0].component_type != ClusterComponentType.BACKUP:
        raise UsageError(f"{folder} is the folder of a member, not of a standby: give one such as RUN/{NAME}")
    if any(is_locked(str(mark)) for mark in marks):
        raise UsageError(f"the standby in {folder} is running: stop it first, with `upheaval standby stop`")
    if any(header.activity_timestamp != NULL_VALUE for header in headers):
        raise UsageError(
            f"the standby in {folder} was not stopped in good order: start and stop it, or restore its files as those "
            "of a backup, with `upheaval restore`"
        )


def _header(mark: Path) -> ClusterMarkHeader:
    try:
        return decode_mark_file(mark.read_bytes(), ClusterMarkHeader).header
    except (OSError, DecodeError) as error:
        raise UsageError(f"{mark} cannot be read: {error}") from error
