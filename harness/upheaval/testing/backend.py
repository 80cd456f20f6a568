"""What a runtime provides for `Cluster`: one interface for processes, containers and the simulation."""

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
    """A load in progress."""

    @property
    def counts(self) -> LoadCounts:
        """The outcomes of its operations so far."""

    def wait_until_acknowledged(self, target: int, timeout_s: float) -> None:
        """Wait until that many operations are acknowledged. Raises `UnknownOutcome` when the time is over."""

    def finish(self) -> LoadCounts:
        """Start no more operations, settle those in flight, and return all outcomes."""


class Tested(Steered, Protocol):
    """A cluster, with the interface that faults need and the one that tests need."""

    def up(self, timeout_s: float) -> int:
        """Start all members and wait for a leader that serves; returns its member id."""

    def wait_until_leader(self, timeout_s: float, *, other_than: int | None = None) -> int:
        """Wait for a leader that is not `other_than`. Raises `UnknownOutcome` when the time is over."""

    def wait_until_caught_up(self, member_id: int, timeout_s: float) -> MemberStatus | None:
        """Wait until the member follows or leads. Raises `UnknownOutcome` when the time is over."""


class Backend(Protocol):
    """A cluster of one runtime with its clients, for one test."""

    @property
    def run(self) -> RunFolder:
        """The run folder."""

    @property
    def target(self) -> Tested:
        """The cluster."""

    @property
    def clients_failure(self) -> str:
        """Why no client can go on, whatever the cluster does; empty if they can."""

    def expect_end(self, member_id: int) -> frozenset[str]:
        """Allow the running processes of a member to end in any way without failing the run."""

    def wait_until_ended(self, member_id: int, names: frozenset[str], timeout_s: float) -> list[int]:
        """The exit statuses of these incarnations of a member, once all have ended. Raises `UnknownOutcome` after the
        time-out.
        """

    def record_fault(self, fault: FaultRecord) -> None:
        """Record a fault that is in effect."""

    def client(self, timeout_s: float, accepts: Accepts | None = None) -> Client:
        """A client. Its session opens with its first request."""

    def ask_round(self, asks: Sequence[Ask]) -> Sequence[bytes | Failure]:
        """Send each request once, then wait for all of them. Returns the outcome of each."""

    def load(self, settings: WorkloadSettings) -> RunningLoad:
        """Start a load on the shipped service of the cluster."""

    def down(self) -> None:
        """End clients and members; the run folder stays."""
