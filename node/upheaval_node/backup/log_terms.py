"""The leadership terms of a copied log: found in its frames, named in the recording log.

A backup names the terms of its copy from the log itself. Aeron's backup names only the last term of a member's
recording log, but a copy may be behind that term, or have reached later terms when a member starts from it. The module
knows no stream and no archive.
"""

from typing import Final

from upheaval_node.errors import DecodeError, PeerError, UsageError
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.media.api import Block
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.frames import DATA_UNFRAGMENTED
from upheaval_node.types import FRAME_HEADER_LENGTH

_HEADER_WORDS: Final = FRAME_HEADER_LENGTH // 4
_SCHEMA_WORD: Final = _HEADER_WORDS + 1
_TEMPLATE: Final = cm.NewLeadershipTermEvent.TEMPLATE_ID


def find_terms(block: Block) -> list[cm.NewLeadershipTermEvent]:
    """The terms that begin in a run of frames of the log. Raises `PeerError` for one that cannot be read."""
    words = block.data.cast("B").cast("i")
    limit = len(words) - _SCHEMA_WORD
    schema_id = cm.SCHEMA.table.schema_id
    events: list[cm.NewLeadershipTermEvent] = []
    index = 0
    while index < limit:
        length = words[index]
        # Block length and template id share a word of a message's header, schema id and version the next.
        is_of_template = words[index + 1] == DATA_UNFRAGMENTED and words[index + _HEADER_WORDS] >> 16 == _TEMPLATE
        if is_of_template and words[index + _SCHEMA_WORD] & 0xFFFF == schema_id:
            events.append(_decode(block, index * 4, length))
        if length < FRAME_HEADER_LENGTH:
            break
        index += (length + 31 & -32) >> 2
    return events


def _decode(block: Block, offset: int, length: int) -> cm.NewLeadershipTermEvent:
    try:
        event = cm.SCHEMA.decode(block.data[offset + FRAME_HEADER_LENGTH : offset + length])
    except DecodeError as error:
        raise PeerError(f"log entry at {block.start + offset}: {error}") from error
    assert isinstance(event, cm.NewLeadershipTermEvent)
    base = event.term_base_log_position
    if event.leadership_term_id < 0 or not 0 <= base <= block.start + offset:
        text = f"log entry at {block.start + offset}: term {event.leadership_term_id} from {base}"
        raise PeerError(text)
    return event


def name_terms(recording_log: RecordingLog, recording_id: int, events: list[cm.NewLeadershipTermEvent]) -> int:
    """Name the terms that are not named yet. Returns their number. Raises `PeerError` when that is impossible.

    The last term comes first: even if a later step fails, the recording log names the term in which the copy ends.
    """
    named = 0
    for event in reversed(events):
        if recording_log.is_unknown(event.leadership_term_id):
            try:
                recording_log.append_term(
                    recording_id, event.leadership_term_id, event.term_base_log_position, event.timestamp
                )
            except UsageError as error:
                raise PeerError(f"term {event.leadership_term_id} of the log: {error}") from error
            named += 1
    return named
