"""Maintenance of a cluster that keeps serving: a new version member by member, a new host for a dead member.

The stop of a member is recorded as a fault of the run, with its proof, and its start as the healing. Then the member
has to catch up. This module knows no runtime: `Hosts` is what each runtime implements.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from upheaval.errors import EnvironmentFault, UnknownOutcome, UsageError
from upheaval.operations.archive_copy import copy_archive
from upheaval.records import MemberFolder
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.renewal import Renewal
from upheaval.system import shown
from upheaval.waits import wait_until

WAIT_S: Final = 120.0
_OWN: Final = ("archive", "cluster", "aeron")
"""The parts of a member's folder that hold its data."""


class Hosts(Protocol):
    """The hosts of a cluster, on any runtime."""

    def prepare(self, renewal: Renewal) -> Renewal:
        """Prepare a renewal and return it in full. Raises `HarnessError` if the members cannot be renewed so."""

    def renew(self, member_id: int, renewal: Renewal) -> None:
        """Let the next start of the member, which is down, use the new version."""

    def require_renewed(self, member_id: int) -> None:
        """Raises `EnvironmentFault` if the member, which was started again, does not run the system of its renewal."""

    def fetch(self, member_id: int) -> None:
        """Copy the files that a member has written into the run folder, unless it writes there itself."""

    def discard(self, member_id: int) -> None:
        """Discard the member's host. The next start makes a new one with the member's files in the run folder."""


def upgrade(cluster: AnyCluster, hosts: Hosts, renewal: Renewal, say: Callable[[str], None]) -> list[int]:
    """Stop, renew and start each member, followers first and the leader last, so that the cluster keeps serving.

    Each member catches up before the next one stops. Returns their ids in that order. Raises `HarnessError`, before any
    member stops, for what cannot be done, and `UnknownOutcome` if a member does not catch up; the others are left
    alone.
    """
    waiting = [member.member_id for member in cluster.members]
    down = _down(cluster)
    if down:
        raise UsageError(f"member {down[0]} is not running: start it first, so that the cluster can do without another")
    renewal = hosts.prepare(renewal)
    renewed: list[int] = []
    while waiting:
        leader = cluster.wait_until_leader(WAIT_S)
        _require_none_down(cluster)
        member_id = next((follower for follower in waiting if follower != leader), waiting[0])
        member = cluster.member(member_id)
        member.stop()
        hosts.renew(member_id, renewal)
        member.start()
        cluster.wait_until_caught_up(member_id, WAIT_S)
        if renewal.system:
            hosts.require_renewed(member_id)
        _wait_until_quorum(cluster)
        say(f"member {member_id} runs again and has caught up")
        waiting.remove(member_id)
        renewed.append(member_id)
    return renewed


def replace_host(cluster: AnyCluster, hosts: Hosts, member_id: int, seed_from: int | None) -> Path | None:
    """Give a member that is down a new host: empty, or seeded with a copy of another member's files.

    Returns the new folder of its old files, if the run folder had any. Raises `UsageError` if the member runs, if there
    is nothing to copy, or if the others are not a majority, and `UnknownOutcome` if they have no leader. In these cases
    nothing is changed.
    """
    member = cluster.member(member_id)
    if member.is_running():
        raise UsageError(f"member {member_id} is running: end it first with `upheaval stop` or `upheaval kill`")
    if seed_from is not None:
        cluster.member(seed_from)
        if seed_from == member_id:
            raise UsageError(f"member {member_id} cannot be seeded from itself")
        hosts.fetch(seed_from)
        _require_log(cluster.run.member(seed_from))
    _require_majority_without(cluster, member_id)
    hosts.fetch(member_id)
    folder = cluster.run.member(member_id)
    try:
        old_files = _moved_away(folder)
        if seed_from is not None:
            _seed(cluster.run.member(seed_from), folder)
    except OSError as error:
        raise EnvironmentFault(f"cannot replace the files of member {member_id}: {error}") from error
    hosts.discard(member_id)
    member.start()
    cluster.wait_until_caught_up(member_id, WAIT_S)
    return old_files


def _require_majority_without(cluster: AnyCluster, member_id: int) -> None:
    """Require a majority: committed entries may be only in the files of this member and of others that are down."""
    others = [member for member in cluster.members if member.member_id != member_id]
    running = sum(member.is_running() for member in others)
    needed = len(cluster.members) // 2 + 1
    if running < needed:
        raise UsageError(
            f"{running} of the other {len(others)} members run: with fewer than {needed}, member {member_id} may hold "
            "what no other member has. Start them first, or make a new cluster from it with `upheaval restore`"
        )
    cluster.wait_until_leader(WAIT_S)


def _moved_away(folder: MemberFolder) -> Path | None:
    """Move a member's data into a folder beside it that nothing reads."""
    there = [name for name in _OWN if (folder.path / name).exists()]
    if not there:
        return None
    number = 1
    while (target := folder.path / f"replaced-{number}").exists():
        number += 1
    target.mkdir()
    for name in there:
        (folder.path / name).rename(target / name)
    return target


def _require_log(source: MemberFolder) -> None:
    if not source.recording_log.is_file() or not source.archive.is_dir():
        raise UsageError(f"member {source.member_id} has no log to copy")


def _seed(source: MemberFolder, target: MemberFolder) -> None:
    """Copy the recording log, then the archive, so that the archive has everything that the recording log names.

    Marks, locks and votes of the other member are not copied. The start truncates a torn end of the log.
    """
    target.cluster.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source.recording_log, target.recording_log)
    copy_archive(source.archive, target.archive)


def _down(cluster: AnyCluster) -> list[int]:
    return [member.member_id for member in cluster.members if not member.is_running()]


def _require_none_down(cluster: AnyCluster) -> None:
    """Raises `UnknownOutcome` for a member that has ended: without another one there may be no quorum."""
    down = _down(cluster)
    if down:
        raise UnknownOutcome(f"member {down[0]} has ended: the remaining members were not touched")


def _wait_until_quorum(cluster: AnyCluster) -> None:
    """Wait until all members follow the same leader, so that the next one may stop."""

    def is_whole() -> bool:
        _require_none_down(cluster)
        statuses = cluster.status()
        leaders = {status.leader_member_id for status in statuses}
        return all(status.alive for status in statuses) and len(leaders) == 1 and -1 not in leaders

    try:
        wait_until(
            is_whole,
            timeout_s=WAIT_S,
            describe=lambda: f"the members follow different leaders: {shown(cluster.status())}",
            interval_s=cluster.poll_interval_s,
        )
    except UnknownOutcome as error:
        _require_none_down(cluster)
        raise UnknownOutcome(f"{error}: the remaining members were not touched") from error
