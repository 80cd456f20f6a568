"""What a runtime does for `Cluster`: one shape for members in processes, in containers and in the simulation."""

from collections.abc import Sequence
from typing import Protocol

from upheaval.accepts import Accepts
from upheaval.execution.stage import Steered
from upheaval.records import RunFolder
from upheaval.system import MemberStatus
from upheaval.testing.calls import Client
from upheaval.testing.together import Ask, Failure
from upheaval.workload import LoadCounts, WorkloadSettings
from upheaval_chaos.record import FaultRecord


class RunningLoad(Protocol):
    """A load that runs until it is finished."""

    @property
    def counts(self) -> LoadCounts:
        """How its operations have ended so far."""

    def wait_until_acknowledged(self, target: int, timeout_s: float) -> None:
        """Raises `UnknownOutcome` when not so many are acknowledged in time."""

    def finish(self) -> LoadCounts:
        """Invoke nothing more, settle what is outstanding, and return how all ended."""


class Tested(Steered, Protocol):
    """A cluster as faults see it and as a test sees it."""

    def up(self, timeout_s: float) -> int:
        """Start all members and wait for a leader that serves; returns its member id."""

    def wait_until_leader(self, timeout_s: float, *, other_than: int | None = None) -> int:
        """Raises `UnknownOutcome` when no other member than the given one leads in time."""

    def wait_until_caught_up(self, member_id: int, timeout_s: float) -> MemberStatus | None:
        """Raises `UnknownOutcome` when the member does not follow or lead in time."""


class Backend(Protocol):
    """A cluster of one runtime with its clients, for one test."""

    @property
    def run(self) -> RunFolder:
        """The run folder."""

    @property
    def target(self) -> Tested:
        """The cluster."""

    def expect_end(self, member_id: int) -> frozenset[str]:
        """What runs of a member now may end by itself, in whichever way, without failing the run."""

    def wait_until_ended(self, member_id: int, names: frozenset[str], timeout_s: float) -> list[int]:
        """The exit statuses of these incarnations of a member, when all have ended; `UnknownOutcome` after the time."""

    def record_fault(self, fault: FaultRecord) -> None:
        """Write down a fault that is there."""

    def client(self, timeout_s: float, accepts: Accepts | None = None) -> Client:
        """A client whose session is opened with its first request."""

    def ask_round(self, asks: Sequence[Ask]) -> Sequence[bytes | Failure]:
        """Send each request once, all of them before any answer is waited for, and return how each ended."""

    def load(self, settings: WorkloadSettings) -> RunningLoad:
        """Start a load on the shipped service of the cluster."""

    def down(self) -> None:
        """End clients and members; the run folder stays."""
