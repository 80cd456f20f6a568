"""The timers service: clients schedule and cancel timers, and read which have fired, when and how often.

The id of a timer is the operation id of the request that scheduled it, and its group is the key of that request. Its
delay counts from the log entry of the request, in cluster time. A timer that fires twice, or that no client scheduled,
shows in the state. The expiry of a timer may be on its way into the log when the timer is cancelled: an expiry after
the cancellation does not count.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from upheaval_node.derivable import mypyc_attr
from upheaval_node.errors import DecodeError
from upheaval_node.service.api import Cluster, SnapshotImage
from upheaval_node.service.services.encoding import Operation, Request, Response, Status
from upheaval_node.service.services.operations import LONG, OperationError, OperationService, accepted, required_long
from upheaval_node.service.services.state import Record

MAX_TIMERS: Final = 30_000
"""The most known timers, including fired ones, because all of them must fit into one response."""

MAX_DELAY: Final = 1 << 40

FIRED: Final = struct.Struct("<qqqi")
"""One value of a READ_TIMERS response: timer id, deadline, time of the last expiry, number of expiries."""

_TIMER_KIND: Final = 4


@dataclass(slots=True)
class _Timer:
    deadline: int
    group: str = ""
    fired_at: int = -1
    count: int = 0
    is_cancelled: bool = False


@mypyc_attr(allow_interpreted_subclasses=True)
class Timers(OperationService):
    """The operations SCHEDULE_TIMER, CANCEL_TIMER and READ_TIMERS.

    SCHEDULE_TIMER has the key group and the value delay as int64, CANCEL_TIMER the value timer id as int64. Delays are
    in the unit of cluster time, by default milliseconds. READ_TIMERS (key: group) returns the timers of the group that
    have fired, in the order of their scheduling.
    """

    def __init__(self) -> None:
        self.timers: dict[int, _Timer] = {}
        self._cluster: Cluster | None = None
        super().__init__(
            {
                Operation.SCHEDULE_TIMER: self._schedule,
                Operation.CANCEL_TIMER: self._cancel,
                Operation.READ_TIMERS: self._read,
            }
        )

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
        """Keep the cluster, which schedules and cancels the timers."""
        self._cluster = cluster
        super().on_start(cluster, snapshot_image)

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        """Count the expiry, even of a timer that no client scheduled, but not after its cancellation."""
        timer = self.timers.setdefault(correlation_id, _Timer(deadline=-1))
        if timer.is_cancelled:
            return
        timer.fired_at = timestamp
        timer.count += 1

    def _schedule(self, request: Request, position: int) -> Response:
        delay = required_long(request)
        if not 0 <= delay <= MAX_DELAY:
            raise OperationError(f"delay of {delay}, limit is {MAX_DELAY}")
        if request.operation_id in self.timers:
            raise OperationError(f"there is a timer {request.operation_id}")
        if len(self.timers) >= MAX_TIMERS:
            raise OperationError(f"there are already {MAX_TIMERS} timers")
        cluster = self._cluster
        assert cluster is not None
        deadline = cluster.time + delay
        self.timers[request.operation_id] = _Timer(deadline, request.key)
        cluster.schedule_timer(request.operation_id, deadline)
        return accepted(request, position, LONG.pack(deadline))

    def _cancel(self, request: Request, position: int) -> Response:
        """Cancel a timer. The answer is the value, or a failed comparison if the timer is unknown, fired or
        cancelled.
        """
        timer_id = required_long(request)
        timer = self.timers.get(timer_id)
        if timer is None or timer.count or timer.is_cancelled:
            return Response(request.operation_id, request.operation, Status.CAS_FAILED, position)
        timer.is_cancelled = True
        assert self._cluster is not None
        self._cluster.cancel_timer(timer_id)
        return accepted(request, position, request.value)

    def _read(self, request: Request, position: int) -> Response:
        values = tuple(
            FIRED.pack(timer_id, timer.deadline, timer.fired_at, timer.count)
            for timer_id, timer in self.timers.items()
            if timer.count and timer.group == request.key
        )
        return Response(request.operation_id, request.operation, Status.OK, position, values=values)

    # --- snapshots ---

    def records(self) -> Iterator[Record]:
        """One record per timer, including cancelled and fired ones, in the order of their scheduling."""
        for timer_id, timer in self.timers.items():
            value = FIRED.pack(timer_id, timer.deadline, timer.fired_at, timer.count)
            yield Record(_TIMER_KIND, timer.group, value + bytes([timer.is_cancelled]))

    def load(self, record: Record) -> None:
        """Load a record. Raises `DecodeError` when it is not a timer."""
        if record.kind != _TIMER_KIND or len(record.value) != FIRED.size + 1:
            raise DecodeError(f"record of kind {record.kind} with {len(record.value)} bytes is not a timer")
        timer_id, deadline, fired_at, count = FIRED.unpack_from(record.value)
        self.timers[timer_id] = _Timer(deadline, record.key, fired_at, count, bool(record.value[-1]))
