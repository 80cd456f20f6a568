"""Planted bugs of sessions, timers, snapshots and services. Knows the consensus module and the service container."""

from dataclasses import replace

from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.module_snapshot import ModuleSnapshot
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.service.api import ClientSession
from upheaval_node.service.container import ServiceContainer
from upheaval_node.types import MAX_POSITION, Now

EVERY = 40
"""A bug that shows at once in everything would be no test of anything."""


def snapshot_misses_a_session(module: ConsensusModule) -> None:
    """The session that was opened last is not in the snapshot of the consensus module."""
    records = module._state.sessions.records
    module._state.sessions.records = lambda: records()[:-1]  # type: ignore[method-assign]


def timer_lost_over_a_restart(module: ConsensusModule) -> None:
    """A start from a snapshot leaves the timers in it alone."""
    load = module._state.load

    def load_snapshot(now: Now, snapshot: ModuleSnapshot) -> None:
        load(now, replace(snapshot, timers=[]))

    module._state.load = load_snapshot  # type: ignore[method-assign]


def timer_fires_again(container: ServiceContainer) -> None:
    """A timer of which the log says that it expired is still there for the next leader."""
    container.view.end_timer = lambda correlation_id, timestamp: None  # type: ignore[method-assign]  # noqa: ARG005


def timer_fires_early(module: ConsensusModule) -> None:
    """A leader takes a timer for due long before its time."""
    expire = module._state.timers.expire
    module._state.timers.expire = lambda time, on_expiry: expire(2 * time, on_expiry)  # type: ignore[method-assign]


def cancelled_timer_fires(module: ConsensusModule) -> None:
    """The consensus module does not heed a service that cancels a timer."""
    module._state.on_cancel_timer = lambda now, message: None  # type: ignore[method-assign]  # noqa: ARG005


def session_not_closed_in_replay(module: ConsensusModule) -> None:
    """A member that does not write the log does not heed the end of a session in it."""
    module._state.sessions.on_log_close = lambda event: None  # type: ignore[method-assign]  # noqa: ARG005


def session_ids_reused(module: ConsensusModule) -> None:
    """A member that reads that a session was opened does not count on from its id."""
    sessions = module._state.sessions
    on_log_open = sessions.on_log_open

    def open_session(now: Now, event: cm.SessionOpenEvent, end_position: int) -> None:
        before = sessions.next_session_id, sessions.next_committed_session_id
        on_log_open(now, event, end_position)
        sessions.next_session_id, sessions.next_committed_session_id = before

    sessions.on_log_open = open_session  # type: ignore[method-assign]


def uncommitted_entries_applied(container: ServiceContainer) -> None:
    """A service applies, and answers, what is in the log before it is committed."""
    poll = container._log.poll
    container._log.poll = lambda commit_position: poll(MAX_POSITION)  # type: ignore[method-assign]  # noqa: ARG005


def message_delivered_twice(container: ServiceContainer) -> None:
    """Some messages reach the service of a member twice."""
    deliver = container._log._on_message
    count = 0

    def on_message(session: ClientSession | None, timestamp: int, payload: Buffer, position: int) -> None:
        nonlocal count
        count += 1
        deliver(session, timestamp, payload, position)  # type: ignore[arg-type]
        if count % EVERY == 0:
            deliver(session, timestamp, payload, position)  # type: ignore[arg-type]

    container._log._on_message = on_message
