"""Edits of the log on all members: entries from clients, services and the cluster itself."""

import struct
from collections.abc import Callable
from typing import Final

from upheaval.checkers.promises import Promise
from upheaval.tamper.edit import applied_by, edit
from upheaval.tamper.history_edits import answered
from upheaval.tamper.log_change import (
    ACTION,
    CLOSED,
    MESSAGE,
    NEW_TERM,
    OPENED,
    PAYLOAD,
    SESSION,
    TERM_ID,
    TIME,
    TIMER,
    change_in_place,
    change_logs,
    is_service_message,
    log_entries,
    operation_id,
    place_in_the_middle,
    place_of,
    place_of_operation,
    templates,
    without,
)
from upheaval.tamper.recordings import Entry
from upheaval.tamper.run_copy import FAULTS, HISTORY, RunCopy, first, need

_MODULE_SCHEMA: Final = 111
_CLIENT_ACTION, _TIMEOUT = 0, 2
"""Reasons of a close (Aeron Cluster: CloseReason)."""
_SUSPEND, _RESUME, _SNAPSHOT = 0, 1, 2
"""Actions (Aeron Cluster: ClusterAction)."""
_ACTION_OFFSET, _FLAGS_OFFSET, _REASON_OFFSET, _LEADER_OFFSET, _UNIT_OFFSET = 32, 36, 32, 40, 48
_UNKNOWN_TEMPLATE: Final = 99
_OTHER_TIMER: Final = 10**6


def _drop(run: RunCopy, wanted: Callable[[Entry], bool], what: str, nth: int = 0) -> None:
    change_logs(run, lambda entries: without(entries, place_of(entries, wanted, what, nth=nth)))


def _double(run: RunCopy, wanted: Callable[[Entry], bool], what: str) -> None:
    def doubled(entries: list[Entry]) -> list[Entry]:
        at = place_of(entries, wanted, what)
        return [*entries[: at + 1], entries[at].copy(), *entries[at + 1 :]]

    change_logs(run, doubled)


def _insert(run: RunCopy, make: Callable[[Entry], bytes]) -> None:
    """Insert an entry after an operation in the middle of the log; `make` makes it from the operation's entry."""

    def inserted(entries: list[Entry]) -> list[Entry]:
        at = place_in_the_middle(entries)
        return [*entries[: at + 1], entries[at].copy(make(entries[at])), *entries[at + 1 :]]

    change_logs(run, inserted)


def _header(template: int, length: int) -> bytes:
    return struct.pack("<HHHH", length, template, _MODULE_SCHEMA, 14)


def _of(template: int) -> Callable[[Entry], bool]:
    return lambda entry: entry.template == template


def _action(action: int) -> Callable[[Entry], bool]:
    return lambda entry: (
        entry.template == ACTION and struct.unpack_from("<i", entry.message, _ACTION_OFFSET) == (action,)
    )


# --- entries that no client and no service requested ---


@applied_by(change_logs)
def a_client_is_served_by_a_suspended_cluster(entries: list[Entry]) -> list[Entry]:
    """An operation between SUSPEND and RESUME."""
    suspend = place_of(entries, _action(_SUSPEND), "no suspend")
    last = max(at for at in range(suspend) if operation_id(entries[at]) is not None)
    entry = entries[last]
    entry.put(TIME[MESSAGE], "q", entries[suspend].long(TIME[ACTION]))
    return [*entries[:last], *entries[last + 1 : suspend + 1], entry, *entries[suspend + 1 :]]


@applied_by(_insert)
def a_timer_fires_that_was_never_set(entry: Entry) -> bytes:
    """A TimerEvent that no service asked for."""
    return _header(TIMER, 24) + struct.pack("<qqq", entry.long(TERM_ID), _OTHER_TIMER, entry.long(TIME[MESSAGE]))


@applied_by(_insert)
def a_service_sends_what_it_did_not(entry: Entry) -> bytes:
    """A message that no service offered."""
    header = bytearray(entry.message[:PAYLOAD])
    struct.pack_into("<q", header, SESSION, -(2**63) + 1)
    return bytes(header) + bytes(entry.message[PAYLOAD:])


@applied_by(_insert)
def an_entry_of_an_unknown_template(entry: Entry) -> bytes:
    """An entry of template 99."""
    return _header(_UNKNOWN_TEMPLATE, 24) + bytes(entry.message[8:PAYLOAD])


@applied_by(_insert)
def an_entry_of_another_schema(entry: Entry) -> bytes:
    """An entry of another schema."""
    return struct.pack("<HHHH", 24, MESSAGE, 7, 0) + bytes(entry.message[8:])


def a_message_that_says_nothing(run: RunCopy) -> None:
    """A message of a client without a payload."""
    _insert(run, lambda entry: bytes(entry.message[:PAYLOAD]))


# --- timers and messages of services ---


def a_timer_does_not_fire(run: RunCopy) -> None:
    """A TimerEvent, taken out of all logs."""
    _drop(run, _of(TIMER), "no timer fired", nth=20)


def a_timer_fires_twice(run: RunCopy) -> None:
    """A TimerEvent that comes again."""
    _double(run, _of(TIMER), "no timer fired")


@applied_by(change_logs)
def a_timer_fires_too_early(entries: list[Entry]) -> list[Entry]:
    """A TimerEvent before its deadline."""
    at = place_of(entries, _of(TIMER), "no timer fired", nth=30)
    entry = entries.pop(at)
    before = [place for place in range(at) if entries[place].template == MESSAGE][-4]
    entry.put(TIME[TIMER], "q", entries[before].long(TIME[MESSAGE]))
    return [*entries[: before + 1], entry, *entries[before + 1 :]]


@applied_by(change_logs)
def a_timer_fires_two_seconds_late(entries: list[Entry]) -> list[Entry]:
    """A TimerEvent 2 s after its deadline."""
    at = place_of(entries, _of(TIMER), "no timer fired", nth=5)
    entry, due = entries.pop(at), entries[at].long(TIME[TIMER])
    messages = (place for place in range(at, len(entries)) if entries[place].template == MESSAGE)
    after = (place for place in messages if entries[place].long(TIME[MESSAGE]) > due + 2000)
    later = first(after, "no two seconds of log after a timer")
    entry.put(TIME[TIMER], "q", entries[later].long(TIME[MESSAGE]))
    entry.put(TERM_ID, "q", entries[later].long(TERM_ID))
    return [*entries[: later + 1], entry, *entries[later + 1 :]]


def a_message_of_a_service_is_gone(run: RunCopy) -> None:
    """A message of a service, taken out of all logs."""
    _drop(run, is_service_message, "no message of a service", nth=3)


def a_message_of_a_service_comes_again(run: RunCopy) -> None:
    """A message of a service that comes again."""
    _double(run, is_service_message, "no message of a service")


@applied_by(change_in_place)
def a_message_of_a_service_has_another_number(entries: list[Entry]) -> None:
    """The number of a message of a service."""
    entry = entries[place_of(entries, is_service_message, "no message of a service", nth=3)]
    entry.put(SESSION, "q", entry.long(SESSION) + 1000)


# --- time ---


@applied_by(change_in_place)
def an_entry_is_a_second_early(entries: list[Entry]) -> None:
    """The time of an entry, 1 s back."""
    entry = entries[place_in_the_middle(entries)]
    entry.put(TIME[MESSAGE], "q", entry.long(TIME[MESSAGE]) - 1000)


@applied_by(change_in_place)
def an_entry_is_an_hour_late(entries: list[Entry]) -> None:
    """The time of an entry, 1 h on."""
    entry = entries[place_in_the_middle(entries)]
    entry.put(TIME[MESSAGE], "q", entry.long(TIME[MESSAGE]) + 3_600_000)


@applied_by(change_in_place)
def all_entries_are_an_hour_early(entries: list[Entry]) -> None:
    """All times of the log, 1 h back."""
    for entry in entries:
        at = TIME[entry.template]
        entry.put(at, "q", entry.long(at) - 3_600_000)


@applied_by(change_in_place)
def the_cluster_counts_in_another_unit(entries: list[Entry]) -> None:
    """The time unit of all terms."""
    for at in templates(entries, NEW_TERM):
        entries[at].put(_UNIT_OFFSET, "i", 1)


# --- terms ---


@applied_by(change_in_place)
def an_entry_names_another_term(entries: list[Entry]) -> None:
    """The term that an entry names."""
    entry = entries[place_in_the_middle(entries)]
    entry.put(TERM_ID, "q", entry.long(TERM_ID) + 1)


def an_entry_is_in_the_next_term_by_its_place(run: RunCopy) -> None:
    """An entry past the beginning of the next term."""
    _to_the_next_term(run, names_it=False)


def an_entry_is_in_the_next_term(run: RunCopy) -> None:
    """An answered entry that is of the next term in all logs.

    And says so, though it was answered before that term began.
    """
    _to_the_next_term(run, names_it=True)


def _to_the_next_term(run: RunCopy, *, names_it: bool) -> None:
    done = {line["id"] for line in run.lines(HISTORY) if line["outcome"] == "ok"}

    def moved(entries: list[Entry]) -> list[Entry]:
        term = place_of(entries, _of(NEW_TERM), "one term", nth=1)
        last = max(at for at in range(term) if operation_id(entries[at]) in done)
        entry = entries[last]
        entry.put(TIME[MESSAGE], "q", entries[term].long(TIME[NEW_TERM]))
        if names_it:
            entry.put(TERM_ID, "q", entries[term].long(TERM_ID))
        return [*entries[:last], *entries[last + 1 : term + 1], entry, *entries[term + 1 :]]

    change_logs(run, moved)


def a_term_begins_by_another_leader(run: RunCopy) -> None:
    """The leader in a NewLeadershipTermEvent."""
    need(len(run.members) > 1, "a single member")

    def change(entries: list[Entry]) -> None:
        entry = entries[place_of(entries, _of(NEW_TERM), "no term", nth=1)]
        (leader,) = struct.unpack_from("<i", entry.message, _LEADER_OFFSET)
        entry.put(_LEADER_OFFSET, "i", (leader + 1) % len(run.members))

    change_in_place(run, change)


def a_term_begins_without_its_entry(run: RunCopy) -> None:
    """A NewLeadershipTermEvent, taken out of all logs."""
    _drop(run, _of(NEW_TERM), "one term", nth=1)


# --- sessions ---


def a_session_never_opens(run: RunCopy) -> None:
    """A SessionOpenEvent, taken out of all logs."""
    _drop(run, _of(OPENED), "no session")


def a_session_opens_twice(run: RunCopy) -> None:
    """A SessionOpenEvent that comes again."""
    _double(run, _of(OPENED), "no session")


@applied_by(change_logs)
def a_session_opens_after_its_first_message(entries: list[Entry]) -> list[Entry]:
    """A SessionOpenEvent after a message."""
    at = place_of(entries, _of(OPENED), "no session")
    opened = entries.pop(at)
    first = place_of(
        entries,
        lambda entry: entry.template == MESSAGE and entry.long(SESSION) == opened.long(24),
        "no message in it",
    )
    opened.put(TIME[OPENED], "q", entries[first].long(TIME[MESSAGE]))
    return [*entries[: first + 1], opened, *entries[first + 1 :]]


def _close(entry: Entry, session: int, reason: int) -> Entry:
    fields = struct.pack("<qqqi", entry.long(TERM_ID), session, entry.long(TIME[entry.template]), reason)
    return entry.copy(_header(CLOSED, 28) + fields)


def a_session_closes_in_the_middle(run: RunCopy) -> None:
    """A close in the middle of a session."""
    _insert(run, lambda entry: bytes(_close(entry, entry.long(SESSION), _TIMEOUT).message))


@applied_by(change_logs)
def a_session_closes_by_time_out_after_its_last_message(entries: list[Entry]) -> list[Entry]:
    """A close by time-out 0 ms after the last message."""
    gone = {entries[at].long(SESSION) for at in templates(entries, CLOSED)}
    last = {entry.long(SESSION): at for at, entry in enumerate(entries) if operation_id(entry) is not None}
    open_ones = {session: at for session, at in last.items() if session not in gone}
    need(open_ones, "no session that stays open")
    session, at = min(open_ones.items(), key=lambda pair: pair[1])
    return [*entries[: at + 1], _close(entries[at], session, _TIMEOUT), *entries[at + 1 :]]


@applied_by(change_in_place)
def a_session_closes_as_if_by_its_client(entries: list[Entry]) -> None:
    """The client as the reason of a close."""
    entries[place_of(entries, _of(CLOSED), "no close")].put(_REASON_OFFSET, "i", _CLIENT_ACTION)


@applied_by(change_in_place)
def a_session_closes_for_no_known_reason(entries: list[Entry]) -> None:
    """An unknown reason of a close."""
    entries[place_of(entries, _of(CLOSED), "no close")].put(_REASON_OFFSET, "i", 7)


def a_session_never_closes(run: RunCopy) -> None:
    """A close, taken out of all logs."""
    _drop(run, _of(CLOSED), "no close")


def the_next_leader_closes_all_sessions(run: RunCopy) -> None:
    """Sessions that a failover ends by time-out.

    The new leader closes them right after it was elected; their clients continue in new sessions.
    """
    need((run.path / FAULTS).exists(), "no fault")
    renamed: dict[int, int] = {}

    def changed(entries: list[Entry]) -> list[Entry]:
        term = place_of(entries, _of(NEW_TERM), "one term", nth=1)
        opened = [entry for entry in entries[:term] if entry.template == OPENED]
        rest = entries[term + 1 :]
        need(not any(entry.template in (OPENED, CLOSED) for entry in rest), "sessions end in a later term anyway")
        highest = max(entry.long(24) for entry in opened)
        renamed.update({entry.long(24): highest + number + 1 for number, entry in enumerate(opened)})
        closes = [_close(entries[term], session, _TIMEOUT) for session in renamed]
        again = []
        for entry in opened:
            other = entry.copy()
            other.put(TERM_ID, "q", entries[term].long(TERM_ID))
            other.put(24, "q", renamed[entry.long(24)])
            other.put(TIME[OPENED], "q", entries[term].long(TIME[NEW_TERM]))
            again.append(other)
        for entry in rest:
            if operation_id(entry) is not None:
                entry.put(SESSION, "q", renamed[entry.long(SESSION)])
        return [*entries[: term + 1], *closes, *again, *rest]

    change_logs(run, changed)
    terms = {number: entry.long(TERM_ID) for number, entry in log_entries(run).items()}
    with run.changing(HISTORY) as lines:
        for line in lines:
            if terms.get(line["id"], 0) > 0 and "session" in line:
                line["session"] = renamed[line["session"]]


# --- commands ---


def no_entry_asks_for_a_snapshot(run: RunCopy) -> None:
    """The entry that asks for a snapshot."""
    _drop(run, _action(_SNAPSHOT), "no snapshot")


@applied_by(change_in_place)
def a_snapshot_is_asked_of_standbys_alone(entries: list[Entry]) -> None:
    """The flags of the entry that asks for a snapshot."""
    entries[place_of(entries, _action(_SNAPSHOT), "no snapshot")].put(_FLAGS_OFFSET, "i", 1)


def no_entry_suspends_the_cluster(run: RunCopy) -> None:
    """The entry that suspends the cluster."""
    _drop(run, _action(_SUSPEND), "no suspend")


def no_entry_resumes_the_cluster(run: RunCopy) -> None:
    """The entry that resumes the cluster."""
    _drop(run, _action(_RESUME), "no suspend")


@applied_by(change_logs)
def an_entry_asks_for_a_snapshot_that_was_never_ordered(entries: list[Entry]) -> list[Entry]:
    """SNAPSHOT for SUSPEND in all logs."""
    at = place_of(entries, _action(_SUSPEND), "no suspend")
    entries[at].put(_ACTION_OFFSET, "i", _SNAPSHOT)
    return entries


# --- contents ---


def all_logs_have_another_value(run: RunCopy) -> None:
    """The value of a write, in all logs."""
    line = answered(run.lines(HISTORY), "write", "append", "transfer", "schedule")

    def change(entries: list[Entry]) -> None:
        entries[place_of_operation(entries, line)].message[-1] ^= 1

    change_in_place(run, change)


_TERM = Promise.ENTRIES_IN_TERM
_SESSIONS = (Promise.SESSIONS_KEPT, Promise.CLIENTS_IN_TIME)
_COMMANDS = (Promise.ADMIN_COMMANDS_PROVED, Promise.EVIDENCE_COMPLETE, Promise.SNAPSHOT_IS_REPLAY)
_COMMITTED = (Promise.COMMITS_KEPT, Promise.LINEARIZABLE, Promise.ACKNOWLEDGED_NOT_LOST, _TERM)
_EXPLAINED = (_TERM, Promise.HISTORY_COMPLETE)

LOG_EDITS = (
    edit(a_client_is_served_by_a_suspended_cluster, Promise.ADMIN_COMMANDS_PROVED, Promise.SESSIONS_KEPT),
    edit(a_timer_fires_that_was_never_set, Promise.TIMERS_KEPT),
    edit(a_service_sends_what_it_did_not, Promise.SERVICE_MESSAGES_ONCE, *_EXPLAINED),
    edit(an_entry_of_an_unknown_template, *_EXPLAINED, Promise.ENTRIES_KNOWN),
    edit(an_entry_of_another_schema, *_EXPLAINED, *_COMMITTED),
    edit(a_message_that_says_nothing, *_EXPLAINED, Promise.ENTRIES_KNOWN),
    edit(a_timer_does_not_fire, Promise.TIMERS_KEPT),
    edit(a_timer_fires_twice, Promise.TIMERS_KEPT),
    edit(a_timer_fires_too_early, Promise.TIMERS_KEPT),
    edit(a_timer_fires_two_seconds_late, Promise.TIMERS_KEPT),
    edit(a_message_of_a_service_is_gone, Promise.SERVICE_MESSAGES_ONCE, Promise.MONEY_CONSERVED),
    edit(a_message_of_a_service_comes_again, Promise.SERVICE_MESSAGES_ONCE, Promise.MONEY_CONSERVED),
    edit(a_message_of_a_service_has_another_number, Promise.SERVICE_MESSAGES_ONCE),
    edit(an_entry_is_a_second_early, Promise.TIME_KEPT),
    edit(an_entry_is_an_hour_late, Promise.TIME_KEPT),
    edit(all_entries_are_an_hour_early, Promise.TIME_KEPT),
    edit(the_cluster_counts_in_another_unit, Promise.TIME_KEPT, Promise.SNAPSHOT_IS_REPLAY, Promise.EVIDENCE_BOUND),
    edit(an_entry_names_another_term, _TERM),
    edit(an_entry_is_in_the_next_term_by_its_place, _TERM),
    edit(an_entry_is_in_the_next_term, *_COMMITTED),
    edit(a_term_begins_by_another_leader, Promise.ONE_LEADER_A_TERM),
    edit(a_term_begins_without_its_entry, _TERM, Promise.EVIDENCE_BOUND),
    edit(a_session_never_opens, Promise.SESSIONS_KEPT),
    edit(a_session_opens_twice, Promise.SESSIONS_KEPT),
    edit(a_session_opens_after_its_first_message, Promise.SESSIONS_KEPT),
    edit(a_session_closes_in_the_middle, Promise.SESSIONS_KEPT),
    edit(a_session_closes_by_time_out_after_its_last_message, *_SESSIONS),
    edit(a_session_closes_as_if_by_its_client, *_SESSIONS),
    edit(a_session_closes_for_no_known_reason, *_SESSIONS),
    edit(a_session_never_closes, *_SESSIONS),
    edit(the_next_leader_closes_all_sessions, *_SESSIONS),
    edit(no_entry_asks_for_a_snapshot, *_COMMANDS),
    edit(a_snapshot_is_asked_of_standbys_alone, *_COMMANDS),
    edit(no_entry_suspends_the_cluster, *_COMMANDS),
    edit(no_entry_resumes_the_cluster, *_COMMANDS),
    edit(an_entry_asks_for_a_snapshot_that_was_never_ordered, *_COMMANDS),
    edit(all_logs_have_another_value, Promise.ACKNOWLEDGED_NOT_LOST),
)
