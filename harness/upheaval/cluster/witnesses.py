"""Snapshots that no test and no scenario asks for: before the first fault and after each heal.

What a snapshot leaves out shows when it is compared with a replay of the log, and a run that takes none shows nothing
of it. One is only taken from a calm cluster, so that none fails by what is done to the members.
"""

from contextlib import suppress

from upheaval.cluster.control import perform
from upheaval.cluster.ending import Ending
from upheaval.errors import UnknownOutcome
from upheaval.records import AdminCommand

TIMEOUT_S = 60.0
_ACTIVE = "ACTIVE"


class Witnesses:
    """Of one cluster. `is_on` is False where none are wanted.

    A shipped service takes none: its answers have its state.
    """

    def __init__(self, target: Ending, service: str, *, is_on: bool) -> None:
        self._target = target
        self._is_on = self._is_due = is_on and ":" in service

    def take_if_due(self) -> None:
        """Take the one that is due, as soon as the cluster is calm; there must be no fault."""
        if self._is_due and self._is_calm():
            self._is_due = False
            with suppress(UnknownOutcome):
                # It is written down without its effect, and judged as that.
                perform(self._target, AdminCommand.SNAPSHOT, TIMEOUT_S)

    def note_heal(self) -> None:
        """Another one is due."""
        self._is_due = self._is_on

    def _is_calm(self) -> bool:
        """Every member follows the leader, and takes what clients send."""
        target = self._target
        return all(map(target.has_caught_up, target.member_ids)) and all(
            status.module_state == _ACTIVE for status in target.control_statuses()
        )
