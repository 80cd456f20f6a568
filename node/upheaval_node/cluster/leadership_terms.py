"""The terms that NewLeadershipTerm names: the leader's answer, and the follower's decision on it.

Pure functions over a recording log and positions; they send and change nothing. Source: Aeron Cluster, field values of
NewLeadershipTerm and the follower's decision on it.
"""

from dataclasses import dataclass
from enum import Enum, auto

from upheaval_node.cluster.rules import Rules
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.types import NULL_POSITION, NULL_TERM_ID, NULL_VALUE, Position, TermId


@dataclass(frozen=True, slots=True)
class NextTerm:
    """The term after the last term that a receiver knows: its id, its start, and its end if that is known."""

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
    rules: Rules,
) -> NextTerm:
    """The term after the last term of another log, as a leader in an election answers.

    An open term ends at the leader's append position, because nothing was appended since the election began. The leader
    has named the terms above `own_log_term_id`, but its log does not contain them before it joins its own log.
    """
    following = TermId(log_leadership_term_id + 1)
    if log_position < append_position:
        following = _following(recording_log, log_leadership_term_id, log_position, own_log_term_id, rules)
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
    rules: Rules,
) -> NextTerm:
    """The term after the last term of another log, as an elected leader answers. An open term has no end."""
    if log_leadership_term_id >= leadership_term_id:
        return NextTerm()
    entry = recording_log.find_term_entry(
        _following(recording_log, log_leadership_term_id, log_position, leadership_term_id, rules)
    )
    if entry is None:
        return NextTerm(leadership_term_id, term_base, NULL_POSITION)
    return NextTerm(entry.leadership_term_id, entry.term_base_log_position, entry.log_position)


def _following(
    recording_log: RecordingLog,
    log_leadership_term_id: TermId,
    log_position: Position,
    own_log_term_id: TermId,
    rules: Rules,
) -> TermId:
    """The term after the last term with entries in a log that names `log_leadership_term_id` and ends at
    `log_position`.

    Only the log of a term's leader, and copies of it, hold entries of that term, and a quorum named the term before its
    first entry. So where this log still has entries of an earlier term, no log has an entry of the named term.
    """
    # Differs from Aeron (docs/protocol.md, E19): Aeron takes the named term as the last one.
    holder = recording_log.find_term_at(log_position, own_log_term_id)
    if holder is None:
        return TermId(log_leadership_term_id + 1)
    return TermId(rules.last_term_of(log_leadership_term_id, holder.leadership_term_id) + 1)


class TermAction(Enum):
    """A follower's reaction to a NewLeadershipTerm that matches the last term of its log."""

    TRUNCATE = auto()
    REPLAY = auto()
    REPLICATE = auto()
    NOTHING = auto()
    INVALID = auto()


@dataclass(frozen=True, slots=True)
class TermDecision:
    """The action and, for REPLICATE, the slice: its term, the base of a new term, and the stop position.

    For TRUNCATE, `stop_position` is where to cut. Terms from `first_empty_term_id` on are already named and begin only
    after the slice.
    """

    action: TermAction
    leadership_term_id: TermId = NULL_TERM_ID
    base_log_position: Position = NULL_POSITION
    stop_position: Position = NULL_POSITION
    first_empty_term_id: TermId = NULL_TERM_ID


def decide_on_term(message: cm.NewLeadershipTerm, append_position: Position) -> TermDecision:
    """Compare the follower's append position with the terms that the leader names.

    The caller has checked that `message.log_leadership_term_id` equals the follower's own.
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
