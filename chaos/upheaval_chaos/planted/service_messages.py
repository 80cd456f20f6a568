"""Planted bugs of the messages that services offer to the log."""

from collections.abc import Callable
from itertools import count
from typing import Final

from upheaval_chaos.planted.bug import Area
from upheaval_chaos.planted.changes import replace_method, replacing
from upheaval_chaos.planted.snapshots import without_pending_messages
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.module_snapshot import ModuleSnapshot
from upheaval_node.cluster.pending_messages import PendingMessages
from upheaval_node.ports import Buffer
from upheaval_node.types import Now, Position

AREA: Final[Area] = Area("service messages")
EVERY: Final = 7


@AREA.bug("money-conserved", "snapshot-is-replay")
def every_seventh_service_message_lost(module: ConsensusModule) -> None:
    """The consensus module forgets each seventh message that a service offers to the log."""
    for pending in module._state.pending_messages:
        _change_seventh(pending, lambda payload: None)  # noqa: ARG005


@AREA.bug("money-conserved", "snapshot-is-replay")
def every_seventh_service_message_garbled(module: ConsensusModule) -> None:
    """The last byte of each seventh message that a service offers to the log is changed."""
    for pending in module._state.pending_messages:
        _change_seventh(pending, lambda payload: bytes(payload[:-1]) + bytes(byte ^ 1 for byte in payload[-1:]))


def _change_seventh(pending: PendingMessages, change: Callable[[Buffer], bytes | None]) -> None:
    enqueue, numbers = pending.enqueue, count(1)

    @replacing(pending, "enqueue")
    def enqueue_changed(payload: Buffer) -> None:
        changed = payload if next(numbers) % EVERY else change(payload)
        if changed is not None:
            enqueue(changed)


@AREA.bug("money-conserved", "service-messages-once", "snapshot-is-replay", is_rare=True)
def uncommitted_service_message_lost(module: ConsensusModule) -> None:
    """A leader that loses its term takes messages of services for logged that it had not committed."""
    for pending in module._state.pending_messages:
        _forget_appended(pending)


def _forget_appended(pending: PendingMessages) -> None:
    restore = pending.restore

    @replacing(pending, "restore")
    def restore_less(commit_position: Position) -> None:
        while pending._appended:
            pending.log_id = pending._messages[0].id
            pending._drop_first()
            pending._appended -= 1
        restore(commit_position)


@AREA.bug("service-messages-once", "money-conserved", "applied-once", is_rare=True)
def service_message_appended_again(module: ConsensusModule) -> None:
    """A new leader appends messages of services that the log of its predecessor has already."""
    for pending in module._state.pending_messages:
        replace_method(pending, "on_log_message", lambda message_id: None)  # noqa: ARG005


@AREA.bug("money-conserved", "snapshot-is-replay", "service-messages-once", is_rare=True)
def service_messages_lost_over_a_restart(module: ConsensusModule) -> None:
    """A start from a snapshot leaves the messages of services in it that the log has not yet."""
    load = module._state.load

    @replacing(module._state, "load")
    def load_without_messages(now: Now, snapshot: ModuleSnapshot) -> None:
        load(now, without_pending_messages(snapshot))
