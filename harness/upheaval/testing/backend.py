"""What a runtime does for `Cluster`: one shape for members in processes, in containers and in the simulation."""

from typing import Protocol

from upheaval.execution.stage import Steered
from upheaval.records import (
    Converge,
    RunFolder,
)
from upheaval.system import MemberStatus
from upheaval.workload import LoadCounts, WorkloadSettings
from upheaval_chaos.record import FaultRecord


class Requests(Protocol):
    """A client session that sends a request and waits for the answer, one at a time."""

    def request(self, payload: bytes) -> bytes:
        """Raises `NotSent` when the cluster never saw it, `OutcomeUnknown` when it was sent and not answered."""
        ...

    def close(self) -> None: ...


class RunningLoad(Protocol):
    """A load that runs until it is finished."""

    @property
    def counts(self) -> LoadCounts: ...

    def wait_until_acknowledged(self, target: int, timeout_s: float) -> None: ...

    def finish(self) -> LoadCounts: ...


class Tested(Steered, Protocol):
    """A cluster as faults see it and as a test sees it."""

    def up(self, timeout_s: float) -> int: ...

    def wait_until_leader(self, timeout_s: float, *, other_than: int | None = None) -> int: ...

    def wait_until_caught_up(self, member_id: int, timeout_s: float) -> MemberStatus | None: ...

    def converge(self, timeout_s: float) -> Converge: ...


class Backend(Protocol):
    """A cluster of one runtime with its clients, for one test."""

    @property
    def run(self) -> RunFolder: ...

    @property
    def target(self) -> Tested: ...

    def expect_end(self, member_id: int) -> frozenset[str]:
        """What runs of a member now may end by itself, in whichever way, without failing the run."""
        ...

    def wait_until_ended(self, member_id: int, names: frozenset[str], timeout_s: float) -> list[int]:
        """The exit statuses of these incarnations of a member, when all have ended; `UnknownOutcome` after the time."""
        ...

    def record_fault(self, fault: FaultRecord) -> None: ...

    def client(self, timeout_s: float) -> Requests: ...

    def load(self, settings: WorkloadSettings) -> RunningLoad: ...

    def down(self) -> None: ...
