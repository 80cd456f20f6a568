"""Ends a run so that it can be judged: the one way for scenarios, campaigns, tests and loads.

This module knows no runtime.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from upheaval.cluster.control import Operable, perform
from upheaval.errors import UnknownOutcome
from upheaval.records import AdminCommand, Converge
from upheaval.workload import WORKBENCH_SERVICE

END_TIMEOUT_S: Final = 60.0


class Ending(Operable, Protocol):
    """A cluster whose run can be ended."""

    def has_caught_up(self, member_id: int) -> bool:
        """Whether the member leads, or follows the leader with its election over."""

    def try_strangers(self) -> None:
        """If the cluster requires credentials, have a client with wrong ones connect, and record the result."""

    def converge(self, timeout_s: float) -> Converge:
        """Wait until all members are at one position, and record what they show."""


def needs_closing_snapshot(service: str, *, has_commands: bool) -> bool:
    """Whether a last snapshot is due: states are compared by it.

    The workbench needs none, because its results show its state. Neither does a run whose admin commands may have taken
    snapshots.
    """
    return has_commands or service != WORKBENCH_SERVICE


def end_run(
    target: Ending,
    *,
    takes_snapshot: bool,
    say: Callable[[str], None] = lambda _: None,
    timeout_s: float = END_TIMEOUT_S,
) -> None:
    """Take a last snapshot if asked to, and wait until all members are at one position. The load must be over.

    A snapshot that fails is recorded and judged, and so is a position that is not reached. Raises `UnknownOutcome` when
    the members follow no leader that could take the snapshot.
    """
    if takes_snapshot:
        follow = "leader that all members follow"
        target.wait_until(lambda: all(map(target.has_caught_up, target.member_ids)), timeout_s, follow)
        with suppress(UnknownOutcome):
            say(f"closing snapshot: {perform(target, AdminCommand.SNAPSHOT, timeout_s).proof}")
    target.try_strangers()
    target.converge(timeout_s)
