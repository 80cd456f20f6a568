"""The contribution of a runtime to a scenario: a cluster with a load, as target of faults.

A stage is used once: `open`, steps, `end_load`, `close`. This module knows no runtime.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from upheaval.checkers.promises import Promise
from upheaval.cluster import Ending, Keeper
from upheaval.records import Failure, RunFolder, add_failure
from upheaval.workload import LoadCounts
from upheaval_chaos.record import FaultRecord
from upheaval_chaos.target import Target


class Steered(Target, Ending, Keeper, Protocol):
    """A cluster as seen by the steps of a scenario."""

    @property
    def run(self) -> RunFolder:
        """The run folder with its members' files."""

    def added_lines(self) -> Callable[[], Iterable[bytes]]:
        """Reads the lines of traces, and of messages that forwarders saw, since its last call."""


class Stage(Protocol):
    """One cluster for one run of one scenario."""

    @property
    def run(self) -> RunFolder:
        """The run folder."""

    @property
    def target(self) -> Steered:
        """The open cluster."""

    def open(self, say: Callable[[str], None]) -> None:
        """Start the members, wait for a leader, and start the load. `say` gets notes about the cluster."""

    def record_fault(self, fault: FaultRecord) -> None:
        """Record a fault that was injected or healed."""

    def end_load(self) -> LoadCounts:
        """Invoke no more operations, and settle the outstanding ones."""

    def close(self) -> None:
        """End everything; the run folder is complete then. Safe at any time, also after a failure."""

    def digest(self) -> str | None:
        """The digest of the execution after `close`, if one seed gives one execution; None otherwise."""


def require_tasks_passed(run: RunFolder, raised: Sequence[str]) -> None:
    """Record the errors that users' code raised, if any."""
    if raised:
        others = f" (and {len(raised) - 1} other texts)" if len(raised) > 1 else ""
        add_failure(run, Failure(Promise.TASKS_PASSED, f"{raised[0]}{others}"))
