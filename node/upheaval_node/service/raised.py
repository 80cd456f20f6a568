"""The exceptions of service callbacks: their place in the service's code, their number, and the traceback.

The traceback of each place is traced once, and its count whenever it has doubled, so that a service that raises at
every message does not fill the disk. Knows nothing of the container's reaction.
"""

import traceback
from collections.abc import Iterator
from itertools import takewhile
from types import FrameType
from typing import Final

from upheaval_node.ports import Tracer
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import Now

PLACES_MAX: Final = 50
"""The most places that are counted separately in one process. All further places share one count."""
FRAMES_MAX: Final = 20
"""The number of innermost frames that are kept of each exception of a chain."""
MESSAGE_MAX: Final = 500
TRACEBACK_MAX: Final = 8000
"""In characters. Of a longer traceback the end is kept, which shows where the exception was raised."""

_NODE: Final = "upheaval_node"
_SHIPPED: Final = "upheaval_node.service.services"

Place = tuple[str, tuple[tuple[str, int], ...]]
"""The type of an exception, and the lines that it passed through."""


class RaisedExceptions:
    """The exceptions of one service in one process."""

    def __init__(self, tracer: Tracer, service_id: int) -> None:
        self._tracer = tracer
        self._service_id = service_id
        self._counts: dict[Place | None, int] = {}

    def trace(self, now: Now, log_position: int, error: Exception) -> str:
        """Trace the exception. Returns it as one line, which is the same for all exceptions of one place and
        message.
        """
        frames = list(_of_service(error))
        callback = frames[0][0].f_code.co_name if frames else ""
        where = _where(*frames[-1]) if frames else "the call of the callback"
        text = _message(error)
        place: Place | None = (
            type(error).__qualname__,
            tuple((frame.f_code.co_filename, line) for frame, line in frames[-FRAMES_MAX:]),
        )
        if place not in self._counts and len(self._counts) >= PLACES_MAX:
            place = None
        count = self._counts[place] = self._counts.get(place, 0) + 1
        if count & (count - 1) == 0:
            self._tracer.emit(
                now,
                TraceKind.SERVICE_RAISED,
                service_id=self._service_id,
                callback=callback,
                error=text,
                where=where,
                log_position=log_position,
                count=count,
                traceback=_traceback(error) if count == 1 else None,
            )
        return f"{callback or 'a callback'} raised {text}, at {where}"


def is_of_service(error: Exception) -> bool:
    """Whether the exception was raised in the service's code, not in the code that calls it."""
    return next(_of_service(error), None) is not None


def _of_service(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """The frames of the service's code, without the frames of the node that call it or that it calls."""
    return ((frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if not _is_of_node(frame))


def _is_of_node(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] == _NODE and not module.startswith(_SHIPPED)


def _where(frame: FrameType, line: int) -> str:
    return f"{_short(frame)}:{line} in {frame.f_code.co_name}"


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - it is the service's class, too
        text = "(no message: its own __str__ raises)"
    return f"{type(error).__qualname__}: {text}"[:MESSAGE_MAX]


def _traceback(error: BaseException) -> str:
    """The traceback from the service's callback on, with the causes of the exception."""
    outermost = traceback.TracebackException.from_exception(error, limit=-FRAMES_MAX)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    calling = list(takewhile(_is_of_node, frames))
    if len(calling) < len(frames):
        del outermost.stack[: max(len(calling) - (len(frames) - len(outermost.stack)), 0)]
    short: dict[str, str] = {}
    errors: list[BaseException | None] = [error]
    chain: list[traceback.TracebackException | None] = [outermost]
    while chain:
        failed, captured = errors.pop(), chain.pop()
        if failed is None or captured is None:
            continue
        short |= {frame.f_code.co_filename: _short(frame) for frame, _ in traceback.walk_tb(failed.__traceback__)}
        for summary in captured.stack:
            summary.filename = short.get(summary.filename, summary.filename)
        errors += [failed.__cause__, failed.__context__]
        chain += [captured.__cause__, captured.__context__]
    return "".join(outermost.format())[-TRACEBACK_MAX:]


def _short(frame: FrameType) -> str:
    """The path of the frame's file from its import root, which is the same on every machine and in containers."""
    path = frame.f_code.co_filename.split("/")
    depth = str(frame.f_globals.get("__name__", "")).count(".") + 1 + (path[-1] == "__init__.py")
    return "/".join(path[-depth:])
