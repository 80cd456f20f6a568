"""Clusters that do not start: one is an outcome, several in a row mean that this machine starts none."""

from typing import Final

from upheaval.errors import EnvironmentFault

UNSTARTED_MAX: Final = 3


class UnstartedInARow:
    """Counts clusters in a row that did not start."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, error: EnvironmentFault) -> None:
        """Count one. Raises its error when it is the last of `UNSTARTED_MAX`."""
        self._count += 1
        if self._count == UNSTARTED_MAX:
            raise error

    def end(self) -> None:
        """End the row: a cluster has started."""
        self._count = 0
