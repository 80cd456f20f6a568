"""Snapshots that no test and no scenario asks for: before the first fault and after each heal.

A comparison with a replay of the log shows what a snapshot leaves out, so a run needs snapshots. They are only taken
while the cluster is calm, so that no fault makes one fail.
"""

from contextlib import suppress

from upheaval.cluster.control import perform
from upheaval.cluster.ending import Ending
from upheaval.errors import UnknownOutcome
from upheaval.records import AdminCommand

TIMEOUT_S = 60.0
_ACTIVE = "ACTIVE"


class Witnesses:
    """The witness snapshots of one cluster. `is_on` turns them on. The answers of a shipped service show its state, so
    it takes none.
    """

    def __init__(self, target: Ending, service: str, *, is_on: bool) -> None:
        self._target = target
        self._is_on = self._is_due = is_on and ":" in service

    def take_if_due(self) -> None:
        """Take the snapshot that is due, as soon as the cluster is calm. No fault may be in effect."""
        if self._is_due and self._is_calm():
            self._is_due = False
            with suppress(UnknownOutcome):
                # It is recorded without an effect, and judged as that.
                perform(self._target, AdminCommand.SNAPSHOT, TIMEOUT_S)

    def note_heal(self) -> None:
        """Another snapshot is due."""
        self._is_due = self._is_on

    def _is_calm(self) -> bool:
        """Whether every member follows the leader and accepts requests."""
        target = self._target
        return all(map(target.has_caught_up, target.member_ids)) and all(
            status.module_state == _ACTIVE for status in target.control_statuses()
        )
