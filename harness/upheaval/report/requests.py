"""The requests in the log of a run, in its order, with the answers that clients recorded.

Where the run has a schema, they are shown by message and field.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from upheaval.checkers.evidence.log_messages import is_session_message
from upheaval.checkers.evidence.logs import compare_logs
from upheaval.checkers.evidence.positions import finals_of
from upheaval.checkers.evidence.recordings import LogMissing, RecordedLog
from upheaval.checkers.history.placed_calls import place_calls
from upheaval.errors import UsageError
from upheaval.records import Function, Json, Manifest, Operation, Payloads, RunFolder, answer_bytes
from upheaval_node.protocol import session_header
from upheaval_node.sbe import SbeError
from upheaval_node.sbe.schema import message_type
from upheaval_node.sbe.values import json_of


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One message to the service in the log; `position` is its end, `timestamp` cluster time.

    `session` is below 0 for a message of the service to itself; `answer` is None where no client recorded one.
    """

    position: int
    session: int
    timestamp: int
    payload: bytes
    answer: bytes | None = None

    @property
    def sender(self) -> str:
        """`session 3`, or `service`."""
        return f"session {self.session}" if self.session >= 0 else "service"

    def line(self, payloads: Payloads) -> str:
        """For people."""
        answer = "" if self.answer is None else f" -> {payloads.text(self.answer)}"
        what = payloads.text(self.payload)
        return f"position {self.position:<8} {self.sender:<11} time {self.timestamp} {what}{answer}"

    def to_fields(self, payloads: Payloads) -> dict[str, Json]:
        """As JSON has it."""
        fields: dict[str, Json] = {"position": self.position, "session": self.session, "timestamp": self.timestamp}
        fields["request"] = _payload_fields(self.payload, payloads)
        fields["answer"] = None if self.answer is None else _payload_fields(self.answer, payloads)
        return fields


def message_name(payload: bytes, payloads: Payloads) -> str:
    """The name of the message in the schema; empty for what is none."""
    if payloads.schema is None:
        return ""
    try:
        return message_type(payloads.schema.decode(payload)).name
    except SbeError:
        return ""


def _payload_fields(payload: bytes, payloads: Payloads) -> dict[str, Json]:
    name = message_name(payload, payloads)
    if not name or payloads.schema is None:
        return {"text": payloads.text(payload), "hex": payload.hex()}
    return {"message": name, "fields": json_of(payloads.schema.decode(payload)), "hex": payload.hex()}


def logged_requests(run: RunFolder, manifest: Manifest) -> Iterator[LoggedRequest]:
    """Raises `UsageError` for a run without a log, and for one of a shipped service."""
    if ":" not in manifest.service:
        raise UsageError(f"{run.path} is a run of {manifest.service}: --requests is for a custom service")
    witness = compare_logs(run, finals_of(manifest), manifest.members, None).witness
    if witness is None:
        raise UsageError(f"{run.path} has no log that can be read")
    calls = [operation for operation in run.read_history() if operation.f is Function.CALL]
    answers = answers_of(place_calls(calls, witness.calls).by_position)
    for position, content in RecordedLog(run.member(witness.member_id)).messages():
        if position > witness.end_position:
            return
        if is_session_message(content):
            _, session, timestamp = session_header.unpack_session_header(content)
            payload = bytes(content[session_header.LENGTH :])
            yield LoggedRequest(position, session, timestamp, payload, answers.get(position))


def answers_of(calls: Mapping[int, Operation]) -> dict[int, bytes]:
    """What clients recorded, by the position of the request."""
    return {position: answer_bytes(call.result) for position, call in calls.items() if isinstance(call.result, str)}


def payloads_at(run: RunFolder, members: Iterable[int], positions: Collection[int]) -> dict[int, bytes]:
    """The payloads of the messages that end at these positions, of the first members that have them in their logs."""
    wanted = set(positions)
    payloads: dict[int, bytes] = {}
    for member_id in members:
        if not wanted:
            break
        with suppress(LogMissing):
            for position, content in RecordedLog(run.member(member_id)).messages():
                if position in wanted and is_session_message(content):
                    payloads[position] = bytes(content[session_header.LENGTH :])
        wanted -= payloads.keys()
    return payloads
