"""Finds the log entry at which the state of one member diverged from the replay. Used only if two states differ.

First it tries each entry: it computes the state of a member that left the entry out or applied it twice, and compares.
If that fails, it reports the first entry after which a record that differs at the end never again had the member's
value.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from upheaval.checkers.evidence.log_messages import decode_message, is_session_message
from upheaval.checkers.states.replay import ExpectedState, LoggedMessage, Replay, StateImage
from upheaval.records import call_digest, decode_operation
from upheaval_node.errors import DecodeError, NodeError
from upheaval_node.protocol import session_header
from upheaval_node.service.services.state import Record, read_state

# Trying costs the square of the number of entries. With more than this many, none is tried.
TRIED_MAX: Final = 1_500
# The records in the states after all entries are compared, unless there would be more than this many in all.
RECORDS_READ_MAX: Final = 20_000_000

_Key = tuple[int, str]


def first_divergence(
    service: str,
    log: Sequence[LoggedMessage],
    before: ExpectedState | None,
    right: ExpectedState,
    wrong: Sequence[bytes],
    owner: str,
) -> str:
    """Describe the first divergence in one line. `before` is the last state that was equal; None for the start of the
    log.

    `right` is the replay's state. At the same position `wrong` is the state of `owner`, a member or a standby.
    """
    begin = -1 if before is None else before.position
    entries = [message for message in log if begin < message.position <= right.position]
    if len(entries) <= TRIED_MAX:
        for index, entry in enumerate(entries):
            for times, what in ((0, "left out"), (2, "applied twice")):
                if _state(service, before, [*entries[:index], *[entry] * times, *entries[index + 1 :]]) == tuple(wrong):
                    return f"the first divergent entry is {_shown(entry)}: {owner} has {what} this one"
    return _by_records(service, before, entries, right, wrong, owner)


def _state(service: str, before: ExpectedState | None, entries: Sequence[LoggedMessage]) -> tuple[bytes, ...]:
    replay = Replay(service, before)
    for entry in entries:
        replay.apply(entry)
    return replay.state().messages


def _by_records(
    service: str,
    before: ExpectedState | None,
    entries: Sequence[LoggedMessage],
    right: ExpectedState,
    wrong: Sequence[bytes],
    owner: str,
) -> str:
    try:
        has, should = _records(wrong), _records(right.messages)
    except NodeError as error:
        return f"the state of {owner} cannot be read: {error}"
    differing = [key for key in {**should, **has} if has.get(key) != should.get(key)]
    if not differing or not entries:
        return f"{owner} differs from the replay after position {0 if before is None else before.position}"
    if len(entries) * len(right.messages) > RECORDS_READ_MAX:
        names = ", ".join(repr(name) for _, name in differing[:3])
        return f"{owner} differs in {names}; {len(entries)} entries since the last equal state are too many"
    replay = Replay(service, before)
    state = _records(replay.state().messages)
    suspects: dict[_Key, LoggedMessage] = {}
    for entry in entries:
        replay.apply(entry)
        after = _records(replay.state().messages)
        for key in differing:
            if after.get(key) == has.get(key):
                suspects.pop(key, None)
            elif after.get(key) != state.get(key):
                suspects.setdefault(key, entry)
        state = after
    key = min(suspects, key=lambda one: suspects[one].position, default=differing[0])
    values = f"of record {key[1]!r} {owner} has {_value(has.get(key))}, the replay {_value(should.get(key))}"
    if key not in suspects:
        return f"no entry since the last equal state touches what differs: {values}"
    return f"the first divergent entry is {_shown(suspects[key])}: {values}"


def _records(messages: Sequence[bytes]) -> Mapping[_Key, list[bytes]]:
    records: dict[_Key, list[bytes]] = {}
    record: Record
    for record in read_state(StateImage(messages)):
        records.setdefault((record.kind, record.key), []).append(record.value)
    return records


def _value(values: list[bytes] | None) -> str:
    return "nothing" if values is None else b",".join(values[-3:])[:60].hex()


def _shown(entry: LoggedMessage) -> str:
    """The entry in words. It must have changed a state, so that a schema explains it."""
    content = entry.content
    if is_session_message(content):
        payload = content[session_header.LENGTH :]
        try:
            operation_id, function, key, value = decode_operation(payload)
        except DecodeError:
            return f"the message with payload {call_digest(payload)[:16]} at position {entry.position}"
        return f"operation id={operation_id} {function} {key} {value!r} at position {entry.position}"
    return f"{type(decode_message(content)).__name__} at position {entry.position}"
