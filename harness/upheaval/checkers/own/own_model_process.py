"""The process that runs a user's model and promises over the log of a run: `python -m` this module.

Its task names the log and has the clients' answers by the position of their requests. It returns the first answer that
differs from the model's, and the verdict on each promise.
"""

import importlib
import json
import linecache
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import upheaval_node
from upheaval.checkers.evidence.log_messages import decode_message, is_session_message
from upheaval.checkers.own.model_events import Models
from upheaval.checkers.own.own_process import answer_each
from upheaval.checkers.own.replay_process import read_log
from upheaval.checkers.states.replay import LoggedMessage, Replay, is_request
from upheaval.model import PROMISES, Model, OwnRun, PlainPromise, Request
from upheaval.records import AS_TEXT, Payloads, RunFolder, answer_bytes, printable
from upheaval_node.errors import DecodeError, UsageError
from upheaval_node.named_classes import find_named
from upheaval_node.protocol import cluster_messages as cm, session_header
from upheaval_node.sbe import SbeMessage
from upheaval_node.service.api import ClusteredService

MODULE: Final = "upheaval.checkers.own.own_model_process"
_SHOWN: Final = 160
_SHOWN_BY_FIELD: Final = 400
_OURS: Final = (
    str(Path(__file__).parents[1]),
    str(Path(upheaval_node.__file__ or "").parent),
    str(Path(importlib.__file__).parent),
    "<frozen",
)
"""The path prefixes of files that are not the user's code."""

Fields = dict[str, Any]
"""The JSON fields of a task or an answer."""


class _Failed(Exception):
    """No verdict is possible. Has the reason and the position."""


class _OwnCodeRaised(_Failed):
    """No verdict is possible because the user's model raised."""


def require_promises(name: str) -> None:
    """Raises `UsageError` if a model without a class, and what was imported beside it, have no promise."""
    if not PROMISES:
        raise UsageError(f"model {name!r}: {name} has no Model and no promise: name module:Class, or use @promise")


def load_model(name: str) -> type[Model | ClusteredService] | None:
    """Load the model class; None for a module that has only promises. Raises `UsageError`, and whatever the module
    raises.
    """
    if ":" not in name:
        importlib.import_module(name)
        return None
    importlib.import_module(name.partition(":")[0])
    model = find_named("model", name)
    if not issubclass(model, Model | ClusteredService):
        raise UsageError(f"model {name!r}: {model.__name__} is a subclass of neither Model nor ClusteredService")
    return model


def _answer(task: Fields) -> Fields:
    log = read_log(task["run"], task["member"], task["end"])
    answers = {int(position): answer for position, answer in task["answers"].items()}
    try:
        model = load_model(task["model"])
        if task["service"] and not task["why_no_service"]:
            importlib.import_module(task["service"].partition(":")[0])
        if model is None:
            require_promises(task["model"])
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises
        return {"why": str(error) if isinstance(error, UsageError) else shown_error(error), "at_fault": True}
    judgement: Fields = {}
    if model is not None:
        judgement = judged(model, log, answers, task, Payloads.of(RunFolder(task["run"])))
    requests = [replace(request, answer=_bytes(answers.get(request.position))) for request in _requests(log)]
    states = _states_of(task, log, {request.position: request for request in requests})
    return {
        **judgement,
        "promises": [judge(sentence, promise, OwnRun(requests, states)) for sentence, promise in PROMISES.items()],
    }


def judged(
    model: type[Model | ClusteredService],
    log: Sequence[LoggedMessage],
    answers: Mapping[int, str],
    task: Fields,
    payloads: Payloads = AS_TEXT,
) -> Fields:
    """The first wrong answer, or why and where judging failed, or the number of right answers."""
    if issubclass(model, ClusteredService):
        compared = _answers_of_service(model, log, answers, task)
    else:
        compared = _answers_of_model(model, log, answers)
    right = 0
    try:
        for request, is_right, expected in compared:
            if not is_right:
                got = _bytes(answers[request.position])
                wrong = {"position": request.position, "request": shown_value(request.payload, payloads)}
                shown = {"expected": shown_value(expected, payloads), "got": shown_value(got, payloads)}
                return {"wrong": {**wrong, **shown}}
            right += 1
    except _Failed as failed:
        is_at_fault = isinstance(failed, _OwnCodeRaised)
        return {"why": failed.args[0], "position": failed.args[1], "at_fault": is_at_fault}
    return {"judged": right}


def _answers_of_model(
    model: type[Model], log: Sequence[LoggedMessage], answers: Mapping[int, str]
) -> Iterator[tuple[Request, bool, Any]]:
    models = Models(model)
    for message in log:
        position = message.position
        try:
            models.hear(message)
            if not is_request(message):
                continue
            request = _request(message)
            instance = models.of(model.partition(request))
            expected = instance.apply(request)
            if position not in answers:
                continue
            is_right = bool(instance.agrees(request, expected, _bytes(answers[position]) or b""))
        except Exception as error:
            raise _OwnCodeRaised(f"raised {shown_error(error)}, at position {position}", position) from error
        yield request, is_right, expected


def _answers_of_service(
    model: type[ClusteredService], log: Sequence[LoggedMessage], answers: Mapping[int, str], task: Fields
) -> Iterator[tuple[Request, bool, Any]]:
    """Yield each request with its verdict: the answer must be among what the session receives before its next
    request.
    """
    if task["why_no_service"]:
        raise _Failed(f"the service as its own model: {task['why_no_service']}", None)
    replay = _replay(f"{model.__module__}:{model.__qualname__}", hears=True)
    open_requests: dict[int, Request] = {}
    heard: dict[int, list[bytes]] = defaultdict(list)

    def settled(session_id: int) -> Iterator[tuple[Request, bool, Any]]:
        heard[session_id] += replay.heard(session_id)
        request, texts = open_requests.pop(session_id, None), heard.pop(session_id)
        if request is not None and request.position in answers:
            expected = texts[0] if texts else "nothing"
            yield request, _bytes(answers[request.position]) in texts, expected

    for message in log:
        if is_request(message):
            request = _request(message)
            yield from settled(request.session_id)
            if request.position in answers and not replay.is_open(request.session_id):
                why = f"the log does not open session {request.session_id}"
                raise _Failed(f"{why}, whose request is at position {request.position}", request.position)
            open_requests[request.session_id] = request
        closed = _closed_session(message)
        if closed is not None:
            yield from settled(closed)
        replay.apply(message)
    for session_id in list(open_requests):
        yield from settled(session_id)


def _closed_session(message: LoggedMessage) -> int | None:
    if is_session_message(message.content):
        return None
    try:
        event = decode_message(message.content)
    except DecodeError:
        return None
    return event.cluster_session_id if isinstance(event, cm.SessionCloseEvent) else None


# --- promises ---


def judge(sentence: str, own: PlainPromise, run: OwnRun) -> Fields:
    """Run a promise. `kept` is None if the result is unknown, `at_fault` if the promise itself is the reason."""
    is_kept: bool | None = True
    detail = ""
    is_at_fault = False
    try:
        value = own(run)
        if value is False:
            is_kept, detail = False, "it returned False"
        elif value is not None and value is not True:
            is_kept, detail = None, f"it returned {shown_value(value)}: expected nothing, True or False"
            is_at_fault = True
    except AssertionError as error:
        is_kept, detail = False, shown_error(error)
    except _Failed as failed:
        is_kept, detail = None, str(failed.args[0])
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises
        is_kept, detail = None, f"raised {shown_error(error)}"
        is_at_fault = True
    where = "" if run.position is None else f" at position {run.position}"
    if is_kept:
        up_to = "" if run.position is None else f" up to position {run.position}"
        return {"sentence": sentence, "kept": True, "detail": f"holds{up_to}", "position": None}
    judgement = {"sentence": sentence, "kept": is_kept, "detail": f"{detail}{where}", "position": run.position}
    return {**judgement, "at_fault": is_at_fault}


def _states_of(
    task: Fields, log: Sequence[LoggedMessage], requests: Mapping[int, Request]
) -> Callable[[], Iterator[tuple[Request, Any]]]:
    def states() -> Iterator[tuple[Request, Any]]:
        if task["why_no_service"]:
            raise _Failed(f"the service's states: {task['why_no_service']}", None)
        replay = _replay(task["service"], hears=False)
        for message in log:
            replay.apply(message)
            if message.position in requests:
                yield requests[message.position], replay.service

    return states


def _replay(service: str, *, hears: bool) -> Replay:
    try:
        return Replay(service, is_own=True, hears=hears)
    except Exception as error:
        raise _Failed(f"the service raised {shown_error(error)}", None) from error


# --- texts ---


def _requests(log: Sequence[LoggedMessage]) -> Iterator[Request]:
    return (_request(message) for message in log if is_request(message))


def _request(message: LoggedMessage) -> Request:
    _, session_id, timestamp = session_header.unpack_session_header(message.content)
    return Request(bytes(message.content[session_header.LENGTH :]), message.position, session_id, timestamp)


def _bytes(answer: str | None) -> bytes | None:
    return None if answer is None else answer_bytes(answer)


def shown_value(value: object, payloads: Payloads = AS_TEXT) -> str:
    """A value in one line: bytes as `payloads` show them, anything else as text or JSON."""
    if isinstance(value, bytes | bytearray | memoryview):
        text = payloads.text(value)
    else:
        text = printable(value if isinstance(value, str) else _text_of(value))
    limit = _SHOWN if payloads.schema is None else _SHOWN_BY_FIELD
    return text if len(text) <= limit else text[:limit] + " .."


def _text_of(value: object) -> str:
    return str(value) if isinstance(value, SbeMessage) else json.dumps(value, default=str)


def shown_error(error: BaseException) -> str:
    """The exception, and the last line of the user's code in its traceback."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg} ({error.filename}:{error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_OURS)]
    words = " ".join(str(error).split())
    if not own:
        return f"{type(error).__name__}: {words}"
    last = own[-1]
    if not words and isinstance(error, AssertionError) and last.lineno is not None:
        words = linecache.getline(last.filename, last.lineno).strip()
    return f"{type(error).__name__}: {words} ({last.filename}:{last.lineno} in {last.name})"


if __name__ == "__main__":
    answer_each(_answer)
