"""The one way to end a run that is to be judged: of a scenario, a campaign, a test or a load.

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
        """Whether the member leads, or follows the member that does, with its election over."""

    def try_strangers(self) -> None:
        """Have a client with wrong credentials try to connect, where the cluster asks for any, and write down what
        came of it.
        """

    def converge(self, timeout_s: float) -> Converge:
        """Wait until all members stand at one position, and write down what was seen."""


def needs_closing_snapshot(service: str, *, has_commands: bool) -> bool:
    """Where states are judged, that at the end is, too: of every service but the workbench, whose results tell its
    state, and where admin commands may have taken snapshots before.
    """
    return has_commands or service != WORKBENCH_SERVICE


def end_run(
    target: Ending,
    *,
    takes_snapshot: bool,
    say: Callable[[str], None] = lambda _: None,
    timeout_s: float = END_TIMEOUT_S,
) -> None:
    """Take a last snapshot if asked to, and let all members come to one position. There must be no load any more.

    A snapshot that fails is written down, and judged as that; so is a position that is not reached. Raises
    `UnknownOutcome` when the members do not follow one leader, of whom the snapshot could be ordered.
    """
    if takes_snapshot:
        follow = "leader that all members follow"
        target.wait_until(lambda: all(map(target.has_caught_up, target.member_ids)), timeout_s, follow)
        with suppress(UnknownOutcome):
            say(f"closing snapshot: {perform(target, AdminCommand.SNAPSHOT, timeout_s).proof}")
    target.try_strangers()
    target.converge(timeout_s)
