"""The process in which the code of a user's service reads a log: `python -m upheaval.checkers.own.replay_process`.

It runs under the conditions that its order asks for, and does one of these:

- `judge`: read the whole log, and tell the state at each snapshot that the log asks for, and samples. Then a copy that
  begins with the last of these snapshots reads the rest of the log, and both are given requests of the log once more:
  what a snapshot forgets shows in the answers. The same is done where most sessions were open, because what belongs to
  closed ones does not show at the end. Another copy that reads the whole log must answer as the first one does, or
  answers say nothing. Each copy is in a child of the process.
- `forms`: the canonical forms of states that it is given.
- `samples`: the states at some entries of the log.
- `show`: one entry, what came of it, and the state after it.
"""

import os
import pickle
import signal
import sys
import traceback
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from upheaval.checkers.evidence.log_messages import decode_message, is_session_message
from upheaval.checkers.evidence.recordings import RecordedLog
from upheaval.checkers.own import replay_conditions
from upheaval.checkers.own.causes import Cause
from upheaval.checkers.own.outside import Outside
from upheaval.checkers.own.own_process import answer_once
from upheaval.checkers.states.replay import (
    ExpectedState,
    LoggedMessage,
    Member,
    Replay,
    is_request,
    session_change,
    state_hash,
)
from upheaval.checkers.states.state_diff import state_difference
from upheaval.records import RunFolder
from upheaval_node.errors import DecodeError
from upheaval_node.protocol import session_header
from upheaval_node.service.api import ClusterRole

MODULE: Final = "upheaval.checkers.own.replay_process"
PROBES: Final = 200
"""So many of the last messages of clients are given once more."""
LONGEST_S: Final = 60
"""After so many seconds a copy is ended."""
_SHOWN: Final = 200
_Result = TypeVar("_Result")
_OTHER_MEMBER: Final = 7


class Task(StrEnum):
    """What the process is to do, see above."""

    JUDGE = "judge"
    FORMS = "forms"
    SAMPLES = "samples"
    SHOW = "show"


@dataclass(frozen=True, slots=True)
class Order:
    """What to replay: the log of `member` up to `end`, by `service` of the folder `source`, and what is changed.

    `low` and `high` are indices of entries: samples are taken after `count` of them, evenly, the last one after `high`;
    that one is shown. Below 0 it is counted from the end of the log.
    """

    service: str
    source: str
    run: str
    member: int
    end: int
    changed: tuple[Cause, ...]
    task: str = Task.JUDGE
    low: int = -1
    high: int = -1
    count: int = 0


def encode_state(state: Sequence[bytes]) -> list[str]:
    """As JSON has it, here and in the process."""
    return [b64encode(message).decode() for message in state]


def decode_state(state: Sequence[str]) -> list[bytes]:
    """As `encode_state` was given it."""
    return [b64decode(message) for message in state]


def _judge(order: Order, log: Sequence[LoggedMessage]) -> dict[str, object]:
    told, states = _apart(lambda: _states(order.service, log))
    places = [(log, states[-1])] if states else []
    if places:
        begin = log[: _most_sessions(log)]
        places.append((begin, _apart(lambda: _replayed(order.service, begin)[0].state())))
    for begin, state in places:
        difference = _forgotten(order.service, begin, state)
        told |= {"difference": difference, "position": state.position}
        if difference:
            break
    return told | _apart(lambda: _samples(order, log))


def _states(service: str, log: Sequence[LoggedMessage]) -> tuple[dict[str, object], list[ExpectedState]]:
    whole, states = _replayed(service, log)
    told: dict[str, object] = {
        "hashes": {state.position: state_hash(state.messages) for state in states},
        "forms": {state_hash(state.messages): _form(whole, state.messages) for state in states},
        "has_form": whole.has_form,
        "difference": "",
        "position": -1,
    }
    told["form_error"] = "" if whole.form_error is None else _raised(whole.form_error)
    return told, states


def _most_sessions(log: Sequence[LoggedMessage]) -> int:
    """How many messages of the log there are when the last request was made while most sessions were open."""
    found, most, count = 0, 0, 0
    for number, message in enumerate(log, 1):
        count += session_change(message)
        if is_request(message) and count >= most:
            found, most = number, count
    return found


def _apart(work: Callable[[], _Result]) -> _Result:
    """What it returns in a child of this process: copies of a service share nothing that its modules and classes hold.

    When it raises, this process ends.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.alarm(LONGEST_S)
            with os.fdopen(write_end, "wb") as pipe:
                pickle.dump(work(), pipe)
            status = 0
        except BaseException:  # noqa: BLE001 - whatever the service's code raises
            traceback.print_exc()
        finally:
            # Threads of the service are not waited for.
            sys.stderr.flush()
            os._exit(status)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        content = pipe.read()
    if os.waitpid(child, 0)[1]:
        sys.exit(1)
    returned: _Result = pickle.loads(content)
    return returned


def _forms(service: str, states: Sequence[Sequence[bytes]]) -> dict[str, object]:
    replay = Replay(service, is_own=True)
    return {"forms": {state_hash(state): _form(replay, state) for state in states}}


def _form(replay: Replay, state: Sequence[bytes]) -> str:
    """The hash of what is compared."""
    return state_hash(replay.form(state))


def _samples(order: Order, log: Sequence[LoggedMessage]) -> dict[str, object]:
    high = order.high if order.high >= 0 else len(log) + order.high
    step = max(-(-(high - order.low) // order.count), 1)
    wanted = {*range(high, order.low, -step)}
    replay = _begun(order, log)
    taken, positions = {}, {}
    for index, message in enumerate(log[: high + 1]):
        replay.apply(message)
        if index in wanted:
            taken[index] = _form(replay, replay.state().messages)
            positions[index] = message.position
    return {"samples": taken, "positions": positions}


def _show(order: Order, log: Sequence[LoggedMessage]) -> dict[str, object]:
    replay = _begun(order, log)
    for message in log[: order.high]:
        replay.apply(message)
    last = log[order.high]
    heard, error = replay.watch(last)
    state = replay.form(replay.state().messages)
    result = _shown(heard) if error is None else _raised(error)
    told = {"entry": _entry(last), "result": result, "position": last.position}
    return {**told, "state": encode_state(state)}


def _begun(order: Order, log: Sequence[LoggedMessage]) -> Replay:
    changed = order.changed
    if Cause.INSTANCES in changed:
        _replayed(order.service, log)
    role = ClusterRole.LEADER if Cause.ROLE in changed else ClusterRole.FOLLOWER
    member = Member(_OTHER_MEMBER if Cause.ROLE in changed else -1, role, Cause.BACKGROUND in changed)
    return Replay(order.service, is_own=True, hears=True, member=member)


def _entry(message: LoggedMessage) -> str:
    """What stands in the log, for people."""
    content = message.content
    if is_session_message(content):
        session_id = session_header.unpack_session_header(content)[1]
        whose = f"of session {session_id}" if is_request(message) else "of the service to itself"
        return f"the message {_shown([content[session_header.LENGTH :]])} {whose}"
    try:
        return type(decode_message(content)).__name__
    except DecodeError:
        return f"{len(content)} bytes"


def _raised(error: BaseException) -> str:
    """What, and where in the innermost function."""
    *_, last = traceback.extract_tb(error.__traceback__)
    where = f"{Path(last.filename).name}:{last.lineno} in {last.name}"
    return f"raises {type(error).__name__}: {error}"[:_SHOWN] + f", at {where}"


@dataclass(frozen=True, slots=True)
class _End:
    """What a copy answers to requests that are given once more, its state after them, and what of that is compared."""

    answers: tuple[tuple[bytes, ...], ...]
    state: tuple[bytes, ...]
    form: tuple[bytes, ...]


def _end(replay: Replay, requests: Sequence[LoggedMessage]) -> _End:
    answers = tuple(replay.probe(request) for request in requests)
    state = replay.state().messages
    return _End(answers, state, replay.form(state))


def _forgotten(service: str, log: Sequence[LoggedMessage], state: ExpectedState) -> str:
    """What a copy does otherwise that begins with that state; empty when nothing is seen."""
    requests = [message for message in log if is_request(message)][-PROBES:]

    def begun() -> _End | str:
        try:
            replay = Replay(service, state, is_own=True)
        except Exception as error:  # noqa: BLE001 - whatever the service's code raises
            return f"raises {type(error).__name__}: {error}"[:_SHOWN]
        for message in log:
            if message.position > state.position:
                replay.apply(message)
        return _end(replay, requests)

    def again() -> _End:
        kept = replay_conditions.unsettle()
        end = _end(_replayed(service, log)[0], requests)
        del kept
        return end

    other = _apart(begun)
    if isinstance(other, str):
        return other
    whole = _apart(lambda: _end(_replayed(service, log)[0], requests))
    if whole != _apart(again):
        return ""
    told = _difference(requests, whole.answers, other.answers)
    if told or whole.form == other.form:
        return told
    names = ("one that read the whole log", "that one")
    return f"writes another snapshot at the end: {state_difference(whole.form, other.form, names)}"


def _replayed(service: str, log: Sequence[LoggedMessage]) -> tuple[Replay, list[ExpectedState]]:
    replay = Replay(service, is_own=True)
    return replay, [replay.state() for message in log if replay.apply(message)]


def _difference(
    requests: Sequence[LoggedMessage], answers: Sequence[Sequence[bytes]], others: Sequence[Sequence[bytes]]
) -> str:
    for request, one, other in zip(requests, answers, others, strict=True):
        if one != other:
            answered = f"answers {_shown(other)} where one that read the whole log answers {_shown(one)}"
            return f"{answered}, asked with {_entry(request)} once more"
    return ""


def _shown(answer: Sequence[bytes]) -> str:
    return repr(b" ".join(answer).decode("utf-8", "backslashreplace")[: _SHOWN // 2]) if answer else "nothing"


def read_log(run: str, member: int, end: int) -> list[LoggedMessage]:
    """The log of a member up to there."""
    messages = (LoggedMessage(*each) for each in RecordedLog(RunFolder(run).member(member)).messages())
    return [message for message in messages if message.position <= end]


_TASKS: Final[Mapping[str, Callable[[Order, Sequence[LoggedMessage]], dict[str, object]]]] = {
    Task.JUDGE: _judge,
    Task.SAMPLES: _samples,
    Task.SHOW: _show,
}


def _answer(told: dict[str, Any]) -> dict[str, object]:
    states = [decode_state(state) for state in told.pop("states")]
    order = Order(**{**told, "changed": tuple(Cause(each) for each in told["changed"])})
    log = [] if order.task == Task.FORMS else read_log(order.run, order.member, order.end)
    kept = replay_conditions.enter(order.changed)
    outside = Outside(order.source)
    outside.listen()
    answer = _forms(order.service, states) if order.task == Task.FORMS else _TASKS[order.task](order, log)
    del kept
    return {**answer, "asked": list(outside.asked)}


if __name__ == "__main__":
    answer_once(_answer)
