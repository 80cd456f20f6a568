"""The process that runs locust users, with or without locust's page: `python -m upheaval.load.runner SETTINGS`.

It is a separate process, because gevent has to patch the standard library before anything else is imported. It knows
endpoints and a history file; the cluster belongs to its parent. It ends when its standard input does, so that nothing
remains when its parent is gone.
"""

# ruff: noqa: E402 - gevent comes first
from gevent import monkey

monkey.patch_all()

import contextlib
import json
import os
import socket
import sys
import time
from argparse import Namespace
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, TextIO

import gevent
import gevent.event
import gevent.os
from flask import request
from gevent.pywsgi import WSGIServer
from locust.argument_parser import get_empty_argument_parser, setup_parser_arguments
from locust.env import Environment
from locust.stats import RequestStats, stats_history

from upheaval.errors import EnvironmentFault
from upheaval.load.fault_rows import STATS_PATH, TAB, with_faults
from upheaval.load.raised_by_users import TEXTS_MAX, text_of
from upheaval.load.raised_on_stop import report_on_stop
from upheaval.load.settings import PROGRESS, RATE, READY, STATISTICS, LoadSettings, Progress, Row, Statistics
from upheaval.load.users import LoadContext, find_user
from upheaval.records import HistoryWriter, Json, RunFolder
from upheaval.stall_watch import StallWatch

# How long the end may take besides the time-outs of connecting and of the operation: closing sessions, scheduling.
STOP_MARGIN_S = 5.0
LOOK_S = 0.01
PROGRESS_EVERY_S = 0.5
# The reported rate covers this many reports; locust's own rate lags by some seconds.
RATE_OVER = 4

Send = Callable[[str, Json], None]


class Load:
    """One load: its users work until the time is over or the end is requested. Each finishes its operation."""

    def __init__(self, settings: LoadSettings, send: Send) -> None:
        self.settings = settings
        self.end_asked = gevent.event.Event()
        self.counted = RequestStats()
        """Everything since the beginning; locust's own statistics begin anew with each start from the page."""
        self._raised: Counter[str] = Counter()
        self._fault: EnvironmentFault | None = None
        self._send = send
        self._begin_s = 0.0
        self._idle_since_s = self.counted.start_time
        self._idle_s = 0.0
        """How long no user worked since the last request."""
        user_class = find_user(settings.user)
        report_on_stop(user_class)
        self._history = HistoryWriter(Path(settings.history))
        self._run = run = RunFolder(Path(settings.history).parent)
        self._context = user_class.context_of_load = LoadContext(
            settings, self._history.add, run.add_session_end, run.add_stray
        )
        self._end_timeout_s = 2 * settings.timeout_s + STOP_MARGIN_S
        self._environment = Environment(
            user_classes=[user_class],
            stop_timeout=self._end_timeout_s,
            parsed_options=_form(settings),
            host=settings.endpoints,
        )
        self._environment.events.request.add_listener(self._count)
        self._environment.events.user_error.add_listener(self._on_raised)
        self._environment.events.test_start.add_listener(self._begin)
        self._environment.events.test_stop.add_listener(self._pause)
        self._runner = self._environment.create_local_runner()

    def run(self) -> Statistics:
        """Run the load to its end. Raises `EnvironmentFault` when the history cannot be written."""
        settings = self.settings
        progress = gevent.spawn(self._send_progress)
        watch = StallWatch(self._run.add_client_stall)
        try:
            with self._page() if settings.page is not None else contextlib.nullcontext():
                if settings.page is None:
                    self._runner.start(settings.users, spawn_rate=settings.spawn_rate)
                self._send(READY, True)
                self.end_asked.wait()
                self._finish()
        finally:
            progress.kill()
            self._runner.quit()
            watch.close()
            self._context.close()
            self._close_history()
        if self._fault is not None:
            raise self._fault
        return replace(statistics(self.counted), raised=self._raised)

    def change(self, wanted: Json) -> None:
        """Apply a change from a line of standard input."""
        if isinstance(wanted, dict) and isinstance(rate := wanted.get(RATE), int | float):
            self._context.rate = float(rate)

    def _begin(self, **_: Any) -> None:
        """Start the clock. Locust calls this at each start; the time runs from the first one."""
        self._idle_s += time.time() - self._idle_since_s
        if not self._begin_s:
            self._begin_s = time.monotonic()
            if self.settings.duration_s is not None:
                gevent.spawn_later(self.settings.duration_s, self.end_asked.set)

    def _pause(self, **_: Any) -> None:
        """Locust calls this when all users have ended; the page may start others."""
        self._idle_since_s = time.time()

    def _finish(self) -> None:
        """Let no user begin another operation, and wait for the operations in flight."""
        self._take_spawn_error()
        if self._context.failure:
            self._fault = self._fault or EnvironmentFault(self._context.failure)
        self._context.is_over = True
        with gevent.Timeout(self._end_timeout_s, False):
            while self._context.in_flight:
                gevent.sleep(LOOK_S)

    def _take_spawn_error(self) -> None:
        """Locust only logs what the constructor of a user raises, and makes no more users."""
        spawning = self._runner.spawning_greenlet
        if spawning is not None and isinstance(spawning.exception, Exception):
            self._on_raised(spawning.exception.with_traceback(spawning.exc_info[2]))

    def _close_history(self) -> None:
        try:
            self._history.close()
        except EnvironmentFault as fault:
            self._fault = self._fault or fault

    @contextlib.contextmanager
    def _page(self) -> Iterator[None]:
        """Serve locust's own page on the socket that the parent has bound."""
        page = self._environment.create_web_ui("", 0, delayed_start=True)
        page.template_args.update(TAB)
        page.app.after_request(self._add_faults)
        # A page that is open in a browser must not keep the server from closing.
        page.server = WSGIServer(socket.socket(fileno=self.settings.page), page.app, log=None)
        page.server.stop_timeout = 0
        page.server.start()
        history = gevent.spawn(stats_history, self._runner)
        try:
            yield
        finally:
            history.kill()
            page.stop()

    def _add_faults(self, response: Any) -> Any:
        """Add the faults to the answer that the page requests periodically."""
        if request.path == STATS_PATH and response.status_code == HTTPStatus.OK:
            text = with_faults(response.get_data(as_text=True), self._run, time.monotonic_ns(), datetime.now(UTC))
            response.set_data(text)
        return response

    def _count(
        self, request_type: str, name: str, response_time: float, response_length: int, exception: Any, **_: Any
    ) -> None:
        # Locust's rates are requests in the time since then.
        self.counted.total.start_time += self._idle_s
        self._idle_s = 0.0
        self.counted.log_request(request_type, name, response_time, response_length)
        if exception is not None:
            self.counted.log_error(request_type, name, exception)

    def _on_raised(self, exception: Exception, **_: Any) -> None:
        """Count what a user's code raised. Only a history that cannot be written ends the load."""
        if isinstance(exception, EnvironmentFault):
            self._end_for(exception)
        text = text_of(exception)
        self._raised[text if text in self._raised or len(self._raised) < TEXTS_MAX else "others"] += 1

    def _end_for(self, fault: EnvironmentFault) -> None:
        self._fault = fault
        self._context.is_over = True
        self.end_asked.set()

    def _flush(self) -> None:
        """Flush the history, so that a program that follows the run sees operations soon after they end."""
        try:
            self._history.flush()
        except EnvironmentFault as fault:
            self._end_for(fault)

    def _send_progress(self) -> None:
        seen = deque([(time.monotonic(), 0)], maxlen=RATE_OVER)
        while True:
            gevent.sleep(PROGRESS_EVERY_S)
            self._flush()
            total = self.counted.total
            now = time.monotonic()
            then, count = seen[0]
            seen.append((now, total.num_requests))
            elapsed_s = now - self._begin_s if self._begin_s else 0.0
            progress = Progress(
                self._runner.user_count,
                total.num_requests,
                total.num_failures,
                (total.num_requests - count) / (now - then),
                elapsed_s,
                self.settings.duration_s,
            )
            self._send(PROGRESS, asdict(progress))


def statistics(stats: Any) -> Statistics:
    """Locust's counts as values, with failures by kind of operation and text."""
    rows = tuple(_row(entry) for _, entry in sorted(stats.entries.items()))
    errors = {f"{error.name}: {error.error}": error.occurrences for error in stats.errors.values()}
    return Statistics(rows, _row(stats.total), errors)


def _row(entry: Any) -> Row:
    p50, p95, p99 = (float(entry.get_response_time_percentile(share) or 0) for share in (0.5, 0.95, 0.99))
    longest = float(entry.max_response_time or 0)
    return Row(entry.name, entry.num_requests, entry.num_failures, entry.total_rps, p50, p95, p99, longest)


def _form(settings: LoadSettings) -> Namespace:
    """The initial values of the page's form, whatever configuration files of locust exist."""
    parser = get_empty_argument_parser(default_config_files=[])
    setup_parser_arguments(parser)
    options: Namespace = parser.parse_args(["--users", str(settings.users), "--spawn-rate", str(settings.spawn_rate)])
    return options


def _messages() -> TextIO:
    """Take over standard output for messages; anything else that prints in this process prints to standard error."""
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return stream


def _watch_input(load: Load) -> None:
    """Apply one change per line until the input ends, then end the load."""
    gevent.os.make_nonblocking(0)
    rest = b""
    while data := gevent.os.nb_read(0, 4096):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            load.change(json.loads(line))
    load.end_asked.set()


def main() -> None:
    """Run the load that the first argument describes, and report its statistics at the end."""
    settings = LoadSettings.from_json(sys.argv[1])
    # Otherwise locust's page would parse the rest as its own options.
    del sys.argv[1:]
    # For custom users. It comes last, so that a queue.py in that folder does not hide Python's.
    sys.path.append(str(Path.cwd()))
    messages = _messages()

    def send(name: str, value: Json) -> None:
        with contextlib.suppress(BrokenPipeError):
            # The reader is gone, so our input has ended too.
            print(json.dumps({name: value}), file=messages, flush=True)

    load = Load(settings, send)
    gevent.spawn(_watch_input, load)
    try:
        statistics = load.run()
    except EnvironmentFault as fault:
        sys.exit(str(fault))
    send(STATISTICS, statistics.to_fields())


if __name__ == "__main__":
    main()
