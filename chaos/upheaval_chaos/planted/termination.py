"""Planted bugs of termination: where a cluster ends, and which acknowledgements its leader waits for."""

from typing import Final

from upheaval_chaos.planted.bug import Area
from upheaval_chaos.planted.changes import replacing
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.module_state import ControlToggle
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import Message, with_values
from upheaval_node.types import FRAME_ALIGNMENT, Now, Position, TermId

AREA: Final[Area] = Area("termination")


@AREA.bug("ends-at-one-position")
def end_without_acks(module: ConsensusModule) -> None:
    """A leader ends before its followers have acknowledged their end."""
    announce = module._termination.announce

    @replacing(module._termination, "announce")
    def announce_as_done(now: Now, position: Position) -> None:
        announce(now, position)
        for member in module.members.values():
            member.has_terminated = True


@AREA.bug("ends-at-one-position")
def end_not_acknowledged(module: ConsensusModule) -> None:
    """A follower ends without a word to its leader."""
    send = module._publisher.send

    @replacing(module._publisher, "send")
    def send_most(now: Now, member_id: int, message: Message) -> bool:
        return isinstance(message, cm.TerminationAck) or send(now, member_id, message)


@AREA.bug("ends-at-one-position", "admin-commands-proved", "no-unexplained-end")
def end_named_a_frame_off(module: ConsensusModule) -> None:
    """A leader tells its followers to end 32 bytes after its own end."""
    send_to_others = module._publisher.send_to_others

    @replacing(module._publisher, "send_to_others")
    def send_later(now: Now, message: Message) -> None:
        if isinstance(message, cm.TerminationPosition):
            message = with_values(message, log_position=Position(message.log_position + FRAME_ALIGNMENT))
        send_to_others(now, message)


@AREA.bug("ends-at-one-position", "snapshots-taken", "admin-commands-proved")
def shutdown_without_a_snapshot(module: ConsensusModule) -> None:
    """SHUTDOWN ends the cluster at once, as ABORT does."""
    check, toggle = module._check_control_toggle, module.counters.control_toggle

    @replacing(module, "_check_control_toggle")
    def check_changed(now: Now) -> int:
        if toggle.get() == ControlToggle.SHUTDOWN:
            toggle.set(ControlToggle.ABORT)
        return check(now)


@AREA.bug("ends-at-one-position")
def end_not_recorded(module: ConsensusModule) -> None:
    """The recording log of a member that ends does not say where its last term ends."""

    @replacing(module.recording_log, "commit_log_position")
    def record_nothing(leadership_term_id: TermId, position: Position) -> None:
        """In place of the recording log's own."""
