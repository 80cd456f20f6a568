"""The protocol trace of a run: its entries in order, selected by member, message and time, and as text.

There are two notations. The plain one has a line for each message and state change, with every field. `columns` is the
notation of the documents on Aeron Cluster's messages: the messages sent, the election state of their sender, and
`payload: field=value|..` with the fields that the documents know. Knows only the run folder.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from upheaval.errors import UsageError
from upheaval.records import jsonfields
from upheaval.records.consensus_file import COMPONENT, messages_of
from upheaval.records.jsonfields import FieldError, Json
from upheaval.records.run_folder import OWN_SYSTEM, MemberFolder, RunFolder
from upheaval_node.protocol.describe import camel_case
from upheaval_node.protocol_trace import MESSAGE_EVENTS
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import S

PLAIN: Final = "plain"
COLUMNS: Final = "columns"
NOTATIONS: Final = (PLAIN, COLUMNS)

CONSENSUS: Final = "consensus"
CLOSED: Final = "CLOSED"
NS_MAX: Final = (1 << 63) - 1
UNKNOWN: Final = "?"
"""The election state where none is known: in another process, or before the trace begins."""

# Fields that columns leave out.
_NOT_IN_COLUMNS: Final[Mapping[str, frozenset[str]]] = {
    "NewLeadershipTerm": frozenset(("commitPosition",)),
    "SessionConnectRequest": frozenset(("clientInfo",)),
    "SessionEvent": frozenset(("leaderHeartbeatTimeoutNs",)),
    "SessionMessageHeader": frozenset(("payloadLength",)),
    "JoinLog": frozenset(("isStandby",)),
    "ServiceTerminationPosition": frozenset(("ackRequired",)),
    "BackupQuery": frozenset(("logPosition",)),
}

_NOT_OF_MESSAGE: Final = frozenset(
    ("ts", "epoch_ms", "member", "component", "pid", "run", "event", "message", "to", "from")
)
_STATES: Final = (TraceKind.ELECTION_STATE, TraceKind.ROLE, TraceKind.MODULE_STATE)

# A duty cycle may enter the next state before it sends. LEADER_INIT itself sends nothing to other members.
_SENT_BY: Final = {"LEADER_INIT": "LEADER_REPLAY"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a protocol trace. `ns` never decreases within a member; `state` is the member's election state."""

    member_id: int
    ns: int
    component: str
    event: str
    message: str
    """The name of the message; empty for a state change."""
    to: int | None
    state: str
    fields: Mapping[str, Json]
    record: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which entries to show; None and empty mean all. Times are seconds since the first entry of the run."""

    members: frozenset[int] = frozenset()
    messages: frozenset[str] = frozenset()
    from_s: float | None = None
    to_s: float | None = None

    def takes(self, entry: Entry, start_ns: int) -> bool:
        """Whether to show an entry; `start_ns` is the time of the run's first entry."""
        seconds = (entry.ns - start_ns) / S
        return (
            (not self.members or entry.member_id in self.members)
            and (not self.messages or entry.message in self.messages)
            and (self.from_s is None or seconds >= self.from_s)
            and (self.to_s is None or seconds <= self.to_s)
        )


def read_entries(run: RunFolder) -> Iterator[Entry]:
    """All entries of a run in order of time. Raises `UsageError` when its protocol was not traced."""
    members = [run.member(member_id) for member_id in range(run.read_manifest().members)]
    sources = [
        _with_states(_read_file(path, folder.member_id)) for folder in members for path in folder.protocol_files()
    ]
    if not sources and run.has_consensus:
        sources = [_with_states(_seen_of(run, folder)) for folder in members]
    if not sources:
        raise UsageError(f"{run.path} has no protocol trace: {how_to_trace(run)}")
    return heapq.merge(*sources, key=lambda entry: entry.ns)


def how_to_trace(run: RunFolder) -> str:
    """What would have recorded one, for a run that has none."""
    system = run.read_manifest().system
    if system != OWN_SYSTEM:
        return f"members of {system} write none"
    return "runs with `--runtime simulated` have one, and clusters of `upheaval up --trace`"


def _seen_of(run: RunFolder, folder: MemberFolder) -> Iterator[Entry]:
    """A member's messages as forwarders saw them, and the state changes that the member traced itself."""
    seen = (event for member_id, event in messages_of(run) if member_id == folder.member_id)
    traced = (event for event in folder.traced() if event.event in _STATES)
    latest_ns = 0
    for event in heapq.merge(seen, traced, key=lambda event: event.ns):
        latest_ns = max(latest_ns, event.ns)
        message, to = event.fields.get("message"), event.fields.get("to")
        yield Entry(
            folder.member_id,
            latest_ns,
            COMPONENT if message else CONSENSUS,
            event.event,
            str(message or ""),
            to if isinstance(to, int) else None,
            "",
            {camel_case(name): value for name, value in event.fields.items() if name not in _NOT_OF_MESSAGE},
            event.fields,
        )


def chosen(entries: Iterable[Entry], choice: Choice) -> Iterator[tuple[int, Entry]]:
    """The entries that the choice takes, each with the nanoseconds since the first of all entries."""
    start_ns: int | None = None
    for entry in entries:
        if start_ns is None:
            start_ns = entry.ns
        if choice.takes(entry, start_ns):
            yield entry.ns - start_ns, entry


def plain_lines(entries: Iterable[tuple[int, Entry]]) -> Iterator[str]:
    """One line per entry: seconds, member, component, event and all fields."""
    for ns, entry in entries:
        what = f"{entry.event} {entry.message}" if entry.message else entry.event
        if entry.to is not None:
            what += f" to member {entry.to}"
        elif entry.message and entry.record.get("stream"):
            what += f" ({entry.record['stream']})"
        who = f"{ns / S:11.6f} member {entry.member_id} {entry.component:<10}"
        payload = "|".join(f"{name}={_column_value(value)}" for name, value in entry.fields.items())
        yield f"{who} {what}  {payload}".rstrip()


def column_lines(entries: Iterable[tuple[int, Entry]], *, masked: frozenset[str] = frozenset()) -> list[str]:
    """The messages sent, with the values of each field in a column; values of `masked` fields become `*`."""
    sent = [entry for _, entry in entries if entry.event == TraceKind.SEND]
    places = [f"member {entry.member_id}{_where(entry)}, to {_receiver(entry)}:" for entry in sent]
    payloads = [_column_fields(entry, masked) for entry in sent]
    widths: dict[tuple[str, str], int] = {}
    for entry, payload in zip(sent, payloads, strict=True):
        for name, value in payload:
            key = (entry.message, name)
            widths[key] = max(widths.get(key, 0), len(value))
    place_width = max((len(place) for place in places), default=0)
    names = {entry.message for entry in sent}
    lines = []
    for entry, place, payload in zip(sent, places, payloads, strict=True):
        cells = [f"{name}={value.ljust(widths[entry.message, name])}" for name, value in payload]
        head = f"{place.ljust(place_width)} payload: "
        lines.append((head if len(names) == 1 else f"{head}{entry.message} ") + "|".join(cells).rstrip())
    return lines


def _where(entry: Entry) -> str:
    if entry.state == UNKNOWN:
        return ""
    state = _SENT_BY.get(entry.state, entry.state)
    return f" {state}" if state.startswith("on") else f" in {state}"


def _receiver(entry: Entry) -> str:
    if entry.to is not None:
        return f"member {entry.to}"
    return str(entry.record.get("stream") or f"stream {entry.record.get('stream_id')}")


def _column_fields(entry: Entry, masked: frozenset[str]) -> list[tuple[str, str]]:
    left_out = _NOT_IN_COLUMNS.get(entry.message, frozenset())
    return [
        (name, "*" if name in masked else _column_value(value))
        for name, value in entry.fields.items()
        if name not in left_out
    ]


def _column_value(value: Json) -> str:
    return str(value).upper() if isinstance(value, bool) else str(value)


def _read_file(path: Path, member_id: int) -> Iterator[Entry]:
    """The entries of one file, without states. A last line that its writer did not finish is left out."""
    latest_ns = 0
    for number, record in jsonfields.read_lines(path, torn_end_allowed=True):
        try:
            fields = record.get("fields")
            if not isinstance(fields, dict):
                raise FieldError("field 'fields' must be an object")
            event = jsonfields.text(record, "event")
            # Events of a duty cycle carry the time at which the cycle began, messages the time at which they passed.
            latest_ns = max(latest_ns, jsonfields.integer_within(record, "ts", 0, NS_MAX))
            yield Entry(
                member_id,
                latest_ns,
                jsonfields.text(record, "component"),
                event,
                jsonfields.text(record, "message") if event in MESSAGE_EVENTS else "",
                jsonfields.optional_integer(record, "to"),
                "",
                fields,
                record,
            )
        except FieldError as error:
            raise UsageError(f"{path}:{number}: {error}") from None


def _with_states(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Add the member's election state to each entry.

    Outside an election, an answer gets `on` and the name of the message that it answers.
    """
    state, pid, received = UNKNOWN, None, ""
    received_ns = -1
    for entry in entries:
        if entry.record.get("pid") != pid:
            pid, state = entry.record.get("pid"), UNKNOWN
        if entry.event == TraceKind.ELECTION_STATE:
            state = str(entry.fields.get("state"))
        elif entry.event == TraceKind.RECEIVE and entry.component == CONSENSUS:
            received, received_ns = entry.message, entry.ns
        is_answer = (
            state == CLOSED and entry.event == TraceKind.SEND and entry.to is not None and received_ns == entry.ns
        )
        yield replace(entry, state=f"on{received}" if is_answer else state)
