"""Planted bugs of what services ask for: their timers, and their messages for the log. Knows the consensus module.

Each is one line of the node that is wrong. All members have it, so their logs and states agree: only the code of the
service can say what it asked for.
"""

from collections.abc import Callable
from typing import Final

from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.pending_messages import PendingMessages
from upheaval_node.ports import Buffer
from upheaval_node.types import MS

EVERY: Final = 7
EARLY_MS: Final = 40
LATE_MS: Final = 5_000


def every_seventh_timer_lost(module: ConsensusModule) -> None:
    """The consensus module forgets each seventh timer that it is asked for."""
    request = module._state.timers.request
    count = 0

    def request_most(correlation_id: int, deadline: int) -> None:
        nonlocal count
        count += 1
        if count % EVERY:
            request(correlation_id, deadline)

    module._state.timers.request = request_most  # type: ignore[method-assign]


def timer_fires_twice(module: ConsensusModule) -> None:
    """A leader writes each expiry into the log twice."""
    expire = module._state.timers.expire

    def expire_twice(time: int, on_expiry: Callable[[int], int]) -> int:
        return expire(time, lambda correlation_id: on_expiry(correlation_id) and on_expiry(correlation_id))

    module._state.timers.expire = expire_twice  # type: ignore[method-assign]


def timer_fires_40_ms_early(module: ConsensusModule) -> None:
    """A leader takes a timer for due a little before its time."""
    _shift_expiries(module, EARLY_MS)


def timer_fires_5_s_late(module: ConsensusModule) -> None:
    """A leader takes a timer for due long after its time."""
    _shift_expiries(module, -LATE_MS)


def _shift_expiries(module: ConsensusModule, ms: int) -> None:
    expire = module._state.timers.expire
    shift = ms * MS // module._state._context.time.in_ns(1)
    module._state.timers.expire = lambda time, on_expiry: expire(time + shift, on_expiry)  # type: ignore[method-assign]


def every_seventh_service_message_lost(module: ConsensusModule) -> None:
    """The consensus module forgets each seventh message that a service offers to the log."""
    for pending in module._state.pending_messages:
        _change_seventh(pending, lambda payload: None)  # noqa: ARG005


def every_seventh_service_message_garbled(module: ConsensusModule) -> None:
    """The last byte of each seventh message that a service offers to the log is another one."""
    for pending in module._state.pending_messages:
        _change_seventh(pending, lambda payload: bytes(payload[:-1]) + bytes(byte ^ 1 for byte in payload[-1:]))


def _change_seventh(pending: PendingMessages, change: Callable[[Buffer], bytes | None]) -> None:
    enqueue = pending.enqueue
    count = 0

    def enqueue_changed(payload: Buffer) -> None:
        nonlocal count
        count += 1
        changed = payload if count % EVERY else change(payload)
        if changed is not None:
            enqueue(changed)

    pending.enqueue = enqueue_changed  # type: ignore[method-assign]
