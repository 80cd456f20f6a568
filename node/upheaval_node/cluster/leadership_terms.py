"""What NewLeadershipTerm says about the terms of the log, on the leader's side and on the follower's.

Pure functions over a recording log and positions; they send nothing and change nothing. Source: Aeron Cluster,
field values of NewLeadershipTerm and the follower's decision on it.
"""

from dataclasses import dataclass
from enum import Enum, auto

from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.types import NULL_POSITION, NULL_TERM_ID, NULL_VALUE, Position, TermId


@dataclass(frozen=True, slots=True)
class NextTerm:
    """The term that follows the one a receiver knows: its id, where it starts, and where it ends if that is known."""

    leadership_term_id: TermId = NULL_TERM_ID
    base_log_position: Position = NULL_POSITION
    end_log_position: Position = NULL_POSITION


def next_term_in_election(
    recording_log: RecordingLog,
    log_leadership_term_id: TermId,
    log_position: Position,
    own_log_term_id: TermId,
    leadership_term_id: TermId,
    append_position: Position,
) -> NextTerm:
    """The term after the one in which another log ends, as a leader tells it while its own election is not over.

    An open term ends at the leader's append position: nothing was appended since the election began. Terms above
    `own_log_term_id` are named already, but are not of the leader's log before it has joined it.
    """
    following = TermId(log_leadership_term_id + 1)
    if log_position < append_position:
        following = _following(recording_log, log_leadership_term_id, log_position, own_log_term_id)
    entry = recording_log.find_term_entry(following)
    if entry is None or following > own_log_term_id:
        next_term_id = following if following <= log_leadership_term_id else leadership_term_id
        return NextTerm(next_term_id, append_position, NULL_POSITION)
    end = entry.log_position if entry.log_position != NULL_POSITION else append_position
    return NextTerm(entry.leadership_term_id, entry.term_base_log_position, end)


def next_term_when_running(
    recording_log: RecordingLog,
    log_leadership_term_id: TermId,
    log_position: Position,
    leadership_term_id: TermId,
    term_base: Position,
) -> NextTerm:
    """The term after the one in which another log ends, as a running leader tells it. An open term has no end."""
    if log_leadership_term_id >= leadership_term_id:
        return NextTerm()
    entry = recording_log.find_term_entry(
        _following(recording_log, log_leadership_term_id, log_position, leadership_term_id)
    )
    if entry is None:
        return NextTerm(leadership_term_id, term_base, NULL_POSITION)
    return NextTerm(entry.leadership_term_id, entry.term_base_log_position, entry.log_position)


def _following(
    recording_log: RecordingLog, log_leadership_term_id: TermId, log_position: Position, own_log_term_id: TermId
) -> TermId:
    """The term after the last one of which a log has entries that names `log_leadership_term_id` and ends here.

    Only the log of the leader that a term had, and copies of it, hold entries of that term; and a quorum named it
    before the first. So where this log still has entries of an earlier term, no log has one of the term named.
    """
    # Differs from Aeron (docs/protocol.md, E19): Aeron takes the named one for it.
    holder = recording_log.find_term_at(log_position, own_log_term_id)
    named = log_leadership_term_id if holder is None else min(log_leadership_term_id, holder.leadership_term_id)
    return TermId(named + 1)


class TermAction(Enum):
    """What a follower does on a NewLeadershipTerm that matches its log's last term."""

    TRUNCATE = auto()
    REPLAY = auto()
    REPLICATE = auto()
    NOTHING = auto()
    INVALID = auto()


@dataclass(frozen=True, slots=True)
class TermDecision:
    """The action and, to replicate, the slice: its term, its base if that is a new term, and where it stops.

    Terms from `first_empty_term_id` on are named already, and begin only after the slice.
    """

    action: TermAction
    leadership_term_id: TermId = NULL_TERM_ID
    base_log_position: Position = NULL_POSITION
    stop_position: Position = NULL_POSITION
    first_empty_term_id: TermId = NULL_TERM_ID


def decide_on_term(message: cm.NewLeadershipTerm, append_position: Position) -> TermDecision:
    """Compare the follower's append position with the terms that the leader names.

    The caller has checked that `message.log_leadership_term_id` equals its own.
    """
    next_base = message.next_term_base_log_position
    if next_base != NULL_POSITION and next_base < append_position:
        return TermDecision(TermAction.TRUNCATE, stop_position=next_base)
    if append_position >= message.term_base_log_position:
        return TermDecision(TermAction.REPLAY)
    if message.next_leadership_term_id == NULL_VALUE:
        return TermDecision(TermAction.INVALID)
    if append_position < next_base:
        is_named = message.next_leadership_term_id <= message.log_leadership_term_id
        first_empty = message.next_leadership_term_id if is_named else NULL_TERM_ID
        return TermDecision(TermAction.REPLICATE, message.log_leadership_term_id, NULL_POSITION, next_base, first_empty)
    if message.next_log_position != NULL_POSITION:
        return TermDecision(TermAction.REPLICATE, message.next_leadership_term_id, next_base, message.next_log_position)
    return TermDecision(TermAction.NOTHING)
