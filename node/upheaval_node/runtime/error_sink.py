"""The sink of errors that do not end the component: a count per kind, one line on stderr, the mark file's error log."""

import contextlib
import sys
from collections.abc import Callable
from typing import Final

from upheaval_node.errors import StorageError
from upheaval_node.ports import Tracer
from upheaval_node.runtime import log_lines
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import Now

MAX_KINDS: Final = 1000  # kinds are named in the code; the limit is against a kind made of peer input
MAX_TEXT_LENGTH: Final = 2000
OTHER_KINDS: Final = "other"


class ProcessErrorSink:
    """Implements `ports.ErrorSink`.

    Later errors of a kind are counted, and go to the error log, which counts repetitions by itself. Errors that are
    reported before there is a mark file are kept for it. A full disk or a closed stderr must not turn an error that the
    component can live with into its end.
    """

    def __init__(self, name: str, tracer: Tracer | None = None) -> None:
        self._name = name
        self._tracer = tracer
        self._record: Callable[[Now, str], None] | None = None
        self._early: list[tuple[Now, str]] = []
        self.counts: dict[str, int] = {}

    def attach_error_log(self, record: Callable[[Now, str], None]) -> None:
        """Give the sink a mark file's error log."""
        self._record = record
        for now, text in self._early:
            record(now, text)
        self._early.clear()

    def report(self, now: Now, kind: str, text: str) -> None:
        """The first error of a kind is a line on stderr and an event of the trace. All go to the error log."""
        if kind not in self.counts and len(self.counts) >= MAX_KINDS:
            kind = OTHER_KINDS
        text = " ".join(text.split())[:MAX_TEXT_LENGTH]
        count = self.counts[kind] = self.counts.get(kind, 0) + 1
        if count == 1:
            if self._tracer is None or not log_lines.are_wanted():
                # Otherwise the event of the tracer becomes a line.
                with contextlib.suppress(OSError):
                    print(f"{self._name}: {kind}: {text}", file=sys.stderr, flush=True)
            if self._tracer is not None:
                self._tracer.emit(now, TraceKind.ERROR, kind=kind, text=text)
        if self._record is not None:
            with contextlib.suppress(StorageError):
                self._record(now, f"{kind}: {text}")
        elif len(self._early) < MAX_KINDS:
            self._early.append((now, f"{kind}: {text}"))
