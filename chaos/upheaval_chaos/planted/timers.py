"""Planted bugs of timers: what services ask for, when a leader expires it, and what a restart leaves of it.

All members have the bug, so their logs and states agree: only the code of the service can say what it asked for.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Final

from upheaval_chaos.planted.bug import Area
from upheaval_chaos.planted.changes import replace_method, replacing
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.module_snapshot import ModuleSnapshot
from upheaval_node.service.container import ServiceContainer
from upheaval_node.types import MAX_POSITION, MS, Now

AREA: Final[Area] = Area("timers")
EVERY: Final = 7
EARLY_MS: Final = 40
LATE_MS: Final = 5_000


@AREA.bug("timers-kept", "snapshot-is-replay")
def every_seventh_timer_lost(module: ConsensusModule) -> None:
    """The consensus module forgets each seventh timer that a service asks for."""
    request, numbers = module._state.timers.request, count(1)

    @replacing(module._state.timers, "request")
    def request_most(correlation_id: int, deadline: int) -> None:
        if next(numbers) % EVERY:
            request(correlation_id, deadline)


@AREA.bug("timers-kept")
def timer_fires_twice(module: ConsensusModule) -> None:
    """A leader writes each expiry into the log twice."""
    expire = module._state.timers.expire

    @replacing(module._state.timers, "expire")
    def expire_twice(time: int, on_expiry: Callable[[int], int]) -> int:
        return expire(time, lambda correlation_id: on_expiry(correlation_id) and on_expiry(correlation_id))


@AREA.bug("timers-kept")
def timer_fires_40_ms_early(module: ConsensusModule) -> None:
    """A leader fires a timer 40 ms early."""
    _shift_expiries(module, EARLY_MS)


@AREA.bug("timers-kept")
def timer_fires_5_s_late(module: ConsensusModule) -> None:
    """A leader fires a timer 5 s late."""
    _shift_expiries(module, -LATE_MS)


def _shift_expiries(module: ConsensusModule, ms: int) -> None:
    expire = module._state.timers.expire
    shift = ms * MS // module._state._context.time.in_ns(1)
    replace_method(module._state.timers, "expire", lambda time, on_expiry: expire(time + shift, on_expiry))


@AREA.bug("timers-kept")
def timer_fires_early(module: ConsensusModule) -> None:
    """A leader takes a timer for due long before its time."""
    expire = module._state.timers.expire
    replace_method(module._state.timers, "expire", lambda time, on_expiry: expire(2 * time, on_expiry))


@AREA.bug("timers-kept")
def timer_fires_again(container: ServiceContainer) -> None:
    """A timer that has expired is still there for the next leader."""
    replace_method(container.view, "end_timer", lambda correlation_id, timestamp: None)  # noqa: ARG005


@AREA.bug("timers-kept")
def cancelled_timer_fires(module: ConsensusModule) -> None:
    """A timer that its service cancelled fires all the same."""
    replace_method(module._state, "on_cancel_timer", lambda now, message: None)  # noqa: ARG005


@AREA.bug("timers-kept", is_rare=True)
def uncommitted_expiry_lost(module: ConsensusModule) -> None:
    """A leader that loses its term does not set the timers again whose expiry it had not committed."""
    timers = module._state.timers
    replace_method(timers, "restore", lambda position: timers.on_committed(MAX_POSITION))  # noqa: ARG005


@AREA.bug("timers-kept")
def timer_lost_over_a_restart(module: ConsensusModule) -> None:
    """A start from a snapshot restores no timers."""
    load = module._state.load

    @replacing(module._state, "load")
    def load_without_timers(now: Now, snapshot: ModuleSnapshot) -> None:
        load(now, replace(snapshot, timers=[]))
