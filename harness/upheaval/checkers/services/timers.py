"""The promise about timers: each fires once, not before its time, and not after it was cancelled.

Judged by the log alone: requests to the service `timers` schedule and cancel timers, timer events are expiries. The
answers of the service are then compared with what these give. An expiry may be on its way into the log when the
cancellation is applied: then the timer does not count as fired, and the promise is kept. The expiry cannot be on its
way any more once the log has an entry that a client sent after the answer to the cancellation. This module knows
nothing of files.

A new leader of Aeron Cluster sets its timer wheel to the time of its election and skips the ticks of timers that were
due by then (ConsensusModuleAgent.electionComplete, DeadlineTimerWheel.currentTickTime). Such a timer fires only when
the wheel comes round.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.checkers.checker import Source, by_log
from upheaval.checkers.evidence.events import Clock, TermTimes, TimerFired
from upheaval.checkers.evidence.logs import WitnessLog
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.evidence.stalls import excused
from upheaval.checkers.history.columns import ById, LogEntry
from upheaval.checkers.promises import Promise
from upheaval.checkers.services.requests_and_events import judge_in_log_order, require_answer
from upheaval.checkers.services.shipped import are_shipped, services_of
from upheaval.checkers.verdict import Broken, Result, Verdict, raise_latest
from upheaval.records import OWN_SYSTEM, TIMERS, Function, Json, Outcome
from upheaval_node.service.services.timers import MAX_DELAY, MAX_TIMERS

CROSSING_MS: Final = 100
"""Milliseconds that a cancellation may take from service to consensus module after the client received the answer."""

LATE_MS: Final = 500
"""Milliseconds that the log may go on after a timer's deadline before the timer fires."""

WHEEL_MS: Final = 128 * 8
"""Milliseconds of one turn of Aeron's timer wheel, by default (Aeron Cluster: ticksPerWheel, wheelTickResolution)."""


@dataclass(slots=True)
class _Timer:
    position: int
    deadline: int
    group: str
    cancelled_by: int | None = None
    """The id of the operation that cancelled the timer."""
    fired_at: int = -1
    fired_position: int = -1


def judge_timers(
    operations: ById,
    requests: Iterable[LogEntry],
    fired: Iterable[TimerFired],
    time_unit: int = 0,
    elections: Iterable[TermTimes] = (),
) -> list[Result]:
    """Judge the timers. Requests and events are in log order.

    `elections` are the terms of a system whose new leaders delay due timers by a turn of the wheel.
    """
    judge = _Judge(operations, time_unit, sorted(times.earliest for times in elections))
    return judge_in_log_order(Promise.TIMERS_KEPT, judge, requests, fired, time_unit)


class _Judge:
    def __init__(self, operations: ById, time_unit: int, elections: Sequence[tuple[int, int]]) -> None:
        self._operations = operations
        self._elections = elections
        """Time and position."""
        self._clock = Clock((), time_unit)
        self._timers: dict[int, _Timer] = {}
        self._cancelled = self._crossed = self._judged = self._late = 0
        # Answered entries, each invoked later than all before: the invocation times, and the entries.
        self._invoked: list[int] = []
        self._entered: list[LogEntry] = []
        self._missed: list[Broken] = []
        """What came too late, or did not come in time."""

    def request(self, entry: LogEntry) -> None:
        expected = self._apply(entry)
        operation = self._operations.get(entry.id)
        if operation is None or operation.outcome is not Outcome.OK:
            return
        if not self._invoked or operation.invoke_ns > self._invoked[-1]:
            self._invoked.append(operation.invoke_ns)
            self._entered.append(entry)
        self._judged += 1
        require_answer(operation, expected, entry.position)

    def _apply(self, entry: LogEntry) -> Json:
        """Apply a request. Returns the expected answer; None for a refusal."""
        if entry.f is Function.FIRED:
            return [
                [timer_id, timer.deadline, timer.fired_at, 1]
                for timer_id, timer in self._timers.items()
                if timer.group == entry.key and timer.fired_at >= 0
            ]
        if not isinstance(entry.value, int):
            return None
        if entry.f is Function.CANCEL:
            timer = self._timers.get(entry.value)
            if timer is None or timer.fired_at >= 0 or timer.cancelled_by is not None:
                return False
            timer.cancelled_by = entry.id
            self._cancelled += 1
            return True
        is_refused = not 0 <= entry.value <= MAX_DELAY or len(self._timers) >= MAX_TIMERS
        if is_refused or entry.id in self._timers:
            return None
        timer = self._timers[entry.id] = _Timer(entry.position, entry.timestamp + entry.value, entry.key)
        return timer.deadline

    def event(self, event: TimerFired) -> None:
        timer = self._timers.get(event.timer_id)
        what = f"timer {event.timer_id} fired at position {event.position}"
        if timer is None:
            raise _broken(event, f"{what}, but no service had scheduled it")
        if timer.fired_position >= 0:
            raise _broken(event, f"{what}, but it had fired at position {timer.fired_position}")
        if event.timestamp < timer.deadline:
            raise _broken(event, f"{what} at time {event.timestamp}, its deadline is {timer.deadline}")
        timer.fired_position = event.position
        if timer.cancelled_by is None:
            timer.fired_at = event.timestamp
            self._late = max(self._late, event.timestamp - timer.deadline)
            return
        self._crossed += 1
        known = self._known_at(timer.cancelled_by)
        late = 0 if known is None else event.timestamp - known.timestamp - CROSSING_MS * self._clock.unit
        if known is not None and late > 0:
            detail = (
                f"{what} at time {event.timestamp}, but operation id={timer.cancelled_by} had cancelled it, "
                f"and was answered before time {known.timestamp}"
            )
            self._missed.append(_broken(event, detail, -(-late // self._clock.unit)))

    def _known_at(self, operation_id: int) -> LogEntry | None:
        """The first entry that was sent after the answer to that operation."""
        operation = self._operations.get(operation_id)
        if operation is None or operation.outcome is not Outcome.OK or operation.complete_ns is None:
            return None
        index = bisect_right(self._invoked, operation.complete_ns)
        return self._entered[index] if index < len(self._entered) else None

    def require_none_lost(self, clock: Clock) -> None:
        for timer_id, timer in self._timers.items():
            if timer.fired_at >= 0:
                self._look_whether_in_time(timer_id, timer, clock)
            is_over = timer.fired_position >= 0 or timer.cancelled_by is not None
            late_ms = 0 if is_over else clock.late_ms(timer.position, timer.deadline)
            if late_ms and late_ms > self._turn_ms(timer):
                detail = (
                    f"timer {timer_id}, scheduled at position {timer.position} for time {timer.deadline}, never fired: "
                    f"the log goes on for {clock.ms_after(timer.position, timer.deadline)} ms after that"
                )
                self._miss(detail, timer.position, timer_id, late_ms - self._turn_ms(timer))
        raise_latest(self._missed)

    def _miss(self, detail: str, position: int, timer_id: int, late_ms: int) -> None:
        self._missed.append(Broken(Verdict.INVALID, detail, position=position, operation=timer_id, late_ms=late_ms))

    def _look_whether_in_time(self, timer_id: int, timer: _Timer, clock: Clock) -> None:
        """Check that the timer fired in time, counted from when its request was certainly applied.

        Pauses of the log count little: the cluster may have had no leader.
        """
        known = self._known_at(timer_id)
        ms = 0 if known is None else clock.ms_between(known.position - 1, timer.deadline, timer.fired_position)
        if ms > LATE_MS and ms > LATE_MS + self._turn_ms(timer):
            detail = (
                f"timer {timer_id}, due at time {timer.deadline}, fired at position {timer.fired_position} at time "
                f"{timer.fired_at}: the log had gone on for {ms} ms"
            )
            self._miss(detail, timer.fired_position, timer_id, ms - LATE_MS - self._turn_ms(timer))

    def _turn_ms(self, timer: _Timer) -> int:
        """The extra milliseconds allowed: one turn of the wheel for each leader elected while the timer was due."""
        due = timer.deadline - LATE_MS * self._clock.unit
        return WHEEL_MS * sum(
            time >= due and position > timer.position and (timer.fired_at < 0 or position < timer.fired_position)
            for time, position in self._elections
        )

    def shown(self) -> str:
        fired = sum(timer.fired_at >= 0 for timer in self._timers.values())
        pending = len(self._timers) - fired - self._cancelled
        late = self._late / self._clock.unit
        return (
            f"{len(self._timers)} timers: {fired} fired, at most {late:g} ms late, {self._cancelled} cancelled "
            f"({self._crossed} of them on their way into the log), {pending} pending at the end; "
            f"{self._judged} answers agree"
        )


def _broken(event: TimerFired, detail: str, late_ms: int = 0) -> Broken:
    """Make a `Broken` about a timer, whose id is that of the operation that scheduled it."""
    return Broken(Verdict.INVALID, detail, position=event.position, operation=event.timer_id, late_ms=late_ms)


def _check(evidence: Evidence, log: WitnessLog) -> Iterable[Result]:
    events = log.events
    elections = () if evidence.manifest.system == OWN_SYSTEM else events.times.values()
    fired: Sequence[TimerFired] = events.timers
    if not are_shipped(services_of(evidence.manifest)):
        # A user's service may have scheduled all other timers.
        scheduled = {entry.id for entry in log.entries.those((Function.SCHEDULE,))}
        fired = [timer for timer in fired if timer.timer_id in scheduled]
    results = judge_timers(evidence.operations, log.entries.those(TIMERS), fired, events.time_unit, elections)
    return excused(results, lambda: evidence.stall)


TIMERS_CHECKER: Final = by_log("timers", (Promise.TIMERS_KEPT,), _check, {Source.HISTORY})
