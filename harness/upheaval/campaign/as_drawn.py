"""Checks that a campaign's cluster was what its seed drew, by what its members recorded.

The cluster's settings only say what to look for; they are no evidence.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

from upheaval.campaign.variations import Companion, Variation, Variations
from upheaval.checkers.evidence.log_messages import is_session_message
from upheaval.checkers.evidence.recordings import FRAME_HEADER_LENGTH, TYPE_DATA, RecordedLog, Segment, messages
from upheaval.records import MemberFolder, Outcome, RunFolder
from upheaval_chaos.record import Proof
from upheaval_node.protocol import session_header
from upheaval_node.trace_kinds import ElectionCause

_SESSION_WORD: Final = 3
_UNFRAGMENTED: Final = 0xC0
_OF_SERVICES: Final = -(1 << 63)
_SERVICE_SHIFT: Final = 56


@dataclass(slots=True)
class _Seen:
    """The evidence in the recorded logs of all members together."""

    fragments: int = 0
    longest_frame: int = 0
    longest_message: int = 0
    checked: int = 0
    """The number of frames with a checksum of their bytes."""
    unchecked: int = 0
    service_messages: Counter[int] = field(default_factory=Counter)
    """The number of messages of each service, by its id."""


def prove_variations(run: RunFolder, members: int, drawn: Variations) -> dict[Variation, Proof]:
    """For each variation that was drawn, whether it took effect, and the evidence. Raises `LogMissing`."""
    kinds = list(drawn.drawn())
    if not kinds:
        return {}
    seen = _Seen()
    for member_id in range(members):
        log = RecordedLog(run.member(member_id))
        for segment in log.segments():
            path = run.member(member_id).archive / f"{log.recording_id}-{segment.base}.rec"
            _look_at(segment, path.read_bytes(), seen)
    proofs = {kind: proof for kind in kinds if (proof := _proof(kind, drawn, seen)) is not None}
    if drawn.companion is not None:
        proofs[Variation(drawn.companion.config.kind)] = _proof_of_companion(run, drawn.companion)
    if drawn.leader_disconnect_ms and (count := _disconnects(run, members)):
        proofs[Variation.LEADER_DISCONNECT] = Proof(True, f"{count} elections because a connection was lost")
    return proofs


def _proof_of_companion(run: RunFolder, companion: Companion) -> Proof:
    """Proved by the companion's trace and recording: how often it started, and how much of the acknowledged
    log it has.
    """
    folder = MemberFolder(run.path / companion.config.name, -1, companion.config.name)
    lives = {event.fields.get("pid") for event in folder.read_trace()}
    position = RecordedLog(folder).read_to_end()
    count = sum(
        operation.outcome is Outcome.OK and (operation.position or 0) <= position for operation in run.read_history()
    )
    evidence = f"{len(lives)} lives of {companion.starts}; its log has {count} acknowledged operations"
    return Proof(len(lives) == companion.starts and count > 0, evidence)


def _disconnects(run: RunFolder, members: int) -> int:
    """How many elections of members began with a lost connection."""
    events = (event for member_id in range(members) for event in run.member(member_id).read_trace())
    return sum(event.fields.get("reason") == ElectionCause.LEADER_DISCONNECTED for event in events)


def _look_at(segment: Segment, recorded: bytes, seen: _Seen) -> None:
    words = memoryview(recorded[: segment.end]).cast("i")
    for offset in segment.offsets:
        index = offset >> 2
        length, kind = words[index], words[index + 1]
        if kind >> 16 != TYPE_DATA:
            continue
        seen.fragments += kind >> 8 & _UNFRAGMENTED != _UNFRAGMENTED
        seen.longest_frame = max(seen.longest_frame, length)
        body = recorded[offset + FRAME_HEADER_LENGTH : offset + (length + 31 & -32)]
        is_checked = words[index + _SESSION_WORD] & 0xFFFFFFFF == crc32(body)
        seen.checked += is_checked
        seen.unchecked += not is_checked
    for _, message in messages(segment):
        seen.longest_message = max(seen.longest_message, len(message))
        if is_session_message(message):
            _, session_id, _ = session_header.unpack_session_header(message)
            if session_id < 0:
                seen.service_messages[session_id - _OF_SERVICES >> _SERVICE_SHIFT] += 1


def _proof(kind: Variation, drawn: Variations, seen: _Seen) -> Proof | None:
    """The proof of a kind; None for a kind that members' logs do not show."""
    match kind:
        case Variation.SEVERAL_SERVICES:
            count = seen.service_messages[len(drawn.more_services)]
            return Proof(count > 0, f"{count} messages of service {len(drawn.more_services)} in the logs")
        case Variation.SMALL_MTU:
            is_small = seen.longest_frame <= drawn.mtu and seen.fragments > 0
            return Proof(is_small, f"{seen.fragments} fragments in the logs, of {seen.longest_frame} bytes at most")
        case Variation.LONG_TEXTS:
            is_long = seen.longest_message > drawn.text_length and seen.fragments > 0
            return Proof(is_long, f"messages of up to {seen.longest_message} bytes in the logs")
        case Variation.CHECKSUMS:
            is_checked = seen.checked > 0 and not seen.unchecked
            return Proof(
                is_checked, f"{seen.checked} frames with their checksums in the logs, {seen.unchecked} without"
            )
        case _:
            return None
