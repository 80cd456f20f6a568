"""Planted bugs of sessions, timers, snapshots and services. Knows the consensus module and the service container."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from upheaval_chaos.planted.elections import modules
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.module_snapshot import ModuleSnapshot
from upheaval_node.member import MemberAgent
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.service.api import ClientSession
from upheaval_node.service.container import ServiceContainer
from upheaval_node.types import MAX_POSITION, Now

EVERY = 40
"""A bug that shows at once in everything would be no test of anything."""


def containers(agents: Sequence[MemberAgent]) -> Iterator[ServiceContainer]:
    """The service containers among the agents of a process."""
    return (agent for agent in agents if isinstance(agent, ServiceContainer))


def snapshot_misses_a_session(agents: Sequence[MemberAgent]) -> None:
    """The session that was opened last is not in the snapshot of the consensus module."""
    for module in modules(agents):
        _forget_sessions(module)


def _forget_sessions(module: ConsensusModule) -> None:
    records = module._state.sessions.records
    module._state.sessions.records = lambda: records()[:-1]  # type: ignore[method-assign]


def timer_lost_over_a_restart(agents: Sequence[MemberAgent]) -> None:
    """A start from a snapshot leaves the timers in it alone."""
    for module in modules(agents):
        _without_timers(module)


def _without_timers(module: ConsensusModule) -> None:
    load = module._state.load

    def load_snapshot(now: Now, snapshot: ModuleSnapshot) -> None:
        load(now, replace(snapshot, timers=[]))

    module._state.load = load_snapshot  # type: ignore[method-assign]


def timer_fires_again(agents: Sequence[MemberAgent]) -> None:
    """A timer of which the log says that it expired is still there for the next leader."""
    for module in modules(agents):
        module._state.timers.on_event = lambda correlation_id: None  # type: ignore[method-assign]  # noqa: ARG005


def timer_fires_early(agents: Sequence[MemberAgent]) -> None:
    """A leader takes a timer for due long before its time."""
    for module in modules(agents):
        _hurry(module)


def _hurry(module: ConsensusModule) -> None:
    expire = module._state.timers.expire
    module._state.timers.expire = lambda time, on_expiry: expire(2 * time, on_expiry)  # type: ignore[method-assign]


def cancelled_timer_fires(agents: Sequence[MemberAgent]) -> None:
    """The consensus module does not heed a service that cancels a timer."""
    for module in modules(agents):
        module._state.on_cancel_timer = lambda now, message: None  # type: ignore[method-assign]  # noqa: ARG005


def session_not_closed_in_replay(agents: Sequence[MemberAgent]) -> None:
    """What the log says of the end of a session is not heeded by whoever does not write it."""
    for module in modules(agents):
        module._state.sessions.on_log_close = lambda event: None  # type: ignore[method-assign]  # noqa: ARG005


def session_ids_reused(agents: Sequence[MemberAgent]) -> None:
    """A member that reads that a session was opened does not count on from its id."""
    for module in modules(agents):
        _reuse_ids(module)


def _reuse_ids(module: ConsensusModule) -> None:
    sessions = module._state.sessions
    on_log_open = sessions.on_log_open

    def open_session(now: Now, event: cm.SessionOpenEvent, end_position: int) -> None:
        before = sessions.next_session_id, sessions.next_committed_session_id
        on_log_open(now, event, end_position)
        sessions.next_session_id, sessions.next_committed_session_id = before

    sessions.on_log_open = open_session  # type: ignore[method-assign]


def uncommitted_entries_applied(agents: Sequence[MemberAgent]) -> None:
    """A service applies, and answers, what stands in the log before it is committed."""
    for container in containers(agents):
        _read_ahead(container)


def _read_ahead(container: ServiceContainer) -> None:
    poll = container._log.poll
    container._log.poll = lambda commit_position: poll(MAX_POSITION)  # type: ignore[method-assign]  # noqa: ARG005


def message_delivered_twice(agents: Sequence[MemberAgent]) -> None:
    """Some messages reach the service of a member twice."""
    for container in containers(agents):
        _deliver_twice(container)


def _deliver_twice(container: ServiceContainer) -> None:
    deliver = container._log._on_message
    count = 0

    def on_message(session: ClientSession | None, timestamp: int, payload: Buffer, position: int) -> None:
        nonlocal count
        count += 1
        deliver(session, timestamp, payload, position)  # type: ignore[arg-type]
        if count % EVERY == 0:
            deliver(session, timestamp, payload, position)  # type: ignore[arg-type]

    container._log._on_message = on_message
