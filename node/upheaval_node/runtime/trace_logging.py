"""Keeps the lines that services write with Python's `logging` in the trace of the process, so that a run folder has
them.
"""

import logging
from collections.abc import Callable
from typing import Final

from upheaval_node.ports import Tracer
from upheaval_node.runtime.log_lines import ERROR, INFO, WARNING
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import Now

LINES_MAX: Final = 10_000
"""The limit on traced lines of one process: a service that logs each message must not make the trace as large as its
log.
"""
TEXT_MAX: Final = 2000


class TraceHandler(logging.Handler):
    """Takes part in the root logger between `begin` and `end`."""

    def __init__(self, tracer: Tracer, now: Callable[[], Now]) -> None:
        super().__init__(logging.INFO)
        self._tracer = tracer
        self._now = now
        self._count = 0
        self._stderr: logging.Handler | None = None
        self._level = logging.NOTSET

    def begin(self) -> None:
        """From `INFO` on. Warnings go to stderr as they do where logging is not configured."""
        root = logging.getLogger()
        self._level = root.level
        if not root.handlers and logging.lastResort is not None:
            self._stderr = logging.lastResort
            root.addHandler(self._stderr)
        root.addHandler(self)
        if root.level in (logging.NOTSET, logging.WARNING):
            root.setLevel(logging.INFO)

    def end(self) -> None:
        """Restore the root logger. The tracer may be closed then."""
        root = logging.getLogger()
        root.removeHandler(self)
        root.setLevel(self._level)
        if self._stderr is not None:
            root.removeHandler(self._stderr)
            self._stderr = None

    def emit(self, record: logging.LogRecord) -> None:
        """Trace the line, unless the process has reached its limit."""
        self._count += 1
        if self._count > LINES_MAX:
            return
        text = record.getMessage() if self._count < LINES_MAX else f"more than {LINES_MAX} lines: the rest is not kept"
        trace = None if record.exc_info is None else logging.Formatter().formatException(record.exc_info)
        level = ERROR if record.levelno >= logging.ERROR else WARNING if record.levelno >= logging.WARNING else INFO
        self._tracer.emit(
            self._now(),
            TraceKind.LOG,
            level=level,
            logger=record.name,
            text=text[:TEXT_MAX],
            traceback=None if trace is None else trace[-TEXT_MAX:],
        )
