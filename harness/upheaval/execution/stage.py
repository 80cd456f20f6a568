"""What a runtime gives a scenario: a cluster that faults can be done to, with a load on it.

A stage is used once: `open`, steps, `end_load`, `close`. This module knows no runtime.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from upheaval.checkers.promises import Promise
from upheaval.cluster import Ending, Keeper
from upheaval.records import Failure, RunFolder, add_failure
from upheaval.workload import LoadCounts
from upheaval_chaos.record import FaultRecord
from upheaval_chaos.target import Target


class Steered(Target, Ending, Keeper, Protocol):
    """A cluster as the steps of a scenario see it."""

    @property
    def run(self) -> RunFolder:
        """Where its members' files are."""


class Stage(Protocol):
    """One cluster for one run of one scenario."""

    @property
    def run(self) -> RunFolder:
        """The run folder."""

    @property
    def target(self) -> Steered:
        """The cluster, once it is open."""

    def open(self, say: Callable[[str], None]) -> None:
        """Start the members, wait for a leader, begin the load; `say` what is worth knowing about the cluster."""

    def record_fault(self, fault: FaultRecord) -> None:
        """Write down a fault that was put in or healed."""

    def end_load(self) -> LoadCounts:
        """Invoke nothing more, and settle what is outstanding."""

    def close(self) -> None:
        """End everything; the run folder is complete. Safe at any time, also after a failure."""

    def digest(self) -> str | None:
        """The digest of the execution where one seed gives one execution, after `close`; None elsewhere."""


def require_tasks_passed(run: RunFolder, raised: Sequence[str]) -> None:
    """Write down what the code of users raised, if it did."""
    if raised:
        others = f" (and {len(raised) - 1} other texts)" if len(raised) > 1 else ""
        add_failure(run, Failure(Promise.TASKS_PASSED, f"{raised[0]}{others}"))
