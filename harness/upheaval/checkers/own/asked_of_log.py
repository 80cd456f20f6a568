"""Whether the log has what a service requested: its messages in order and unchanged, and its timers when they were due.

A copy of the service reads the log. What it offers and schedules at an entry is what the members' services requested
there; the cluster must then put it into the log. Time-outs count only time in which the log went on: a pause between
two entries counts as at most `PAUSE_MS`, so that a stopped leader does not make a timer late. If a fault stops only a
service, its requests are late while the log goes on; that time does not count.

This module knows no language, no process and no file: it takes the values of `effects`.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Final

from upheaval.checkers.own.cuts import shown
from upheaval.checkers.own.effects import Effects, Entry, EntryKind
from upheaval.records import AS_TEXT, Payloads

LATE_MS: Final = 2_500
"""Milliseconds that the log may go on in one term until it has what was requested."""
PAUSE_MS: Final = 100
CROSSING_MS: Final = 1_000
"""Milliseconds after a timer is cancelled or rescheduled in which its expiry may still be on the way into the log."""


@dataclass(frozen=True, slots=True)
class Unasked:
    """The first place where the log differs from what the service requested, with a line for readers."""

    position: int
    detail: str


class _Broken(Exception):
    """The violation, and its position."""

    def __init__(self, position: int, detail: str) -> None:
        super().__init__(detail)
        self.unasked = Unasked(position, detail)


def log_against_asked(
    entries: Sequence[Entry],
    effects: Sequence[Effects],
    units_per_ms: int = 1,
    *,
    has_other_services: bool = False,
    untimed_ms: Sequence[tuple[int, int]] = (),
    payloads: Payloads = AS_TEXT,
) -> Unasked | None:
    """The first request that the log lacks, or the first thing in the log without a request; None if all is right.

    `effects` are those of a copy that reads all of `entries`. `units_per_ms` is the number of units of cluster time in
    a millisecond. With `has_other_services`, an unknown timer id may belong to another service. In `untimed_ms`,
    intervals of cluster time in milliseconds, nothing is getting late. `payloads` shows messages.
    """
    untimed = [(begin_ms * units_per_ms, end_ms * units_per_ms) for begin_ms, end_ms in untimed_ms]
    messages = _Messages(LATE_MS * units_per_ms, payloads)
    timers = _Timers(units_per_ms, has_other_services=has_other_services)
    gone_on, last = 0, entries[0].timestamp if entries else 0
    try:
        for entry, effect in zip(entries, effects, strict=True):
            if not any(begin <= entry.timestamp <= end for begin, end in untimed):
                gone_on += min(max(entry.timestamp - last, 0), PAUSE_MS * units_per_ms)
            last = max(last, entry.timestamp)
            if entry.kind is EntryKind.TERM:
                messages.restart(gone_on)
                timers.restart(gone_on)
            messages.read(entry)
            timers.read(entry, gone_on)
            messages.ask(entry, effect, gone_on)
            timers.ask(entry, effect, gone_on)
            messages.require_in_time(entry, gone_on)
            timers.require_in_time(entry, gone_on)
    except _Broken as broken:
        return broken.unasked
    return None


@dataclass(frozen=True, slots=True)
class _Offer:
    message: bytes
    position: int
    waited_from: int


class _Messages:
    """The offered messages that are not in the log yet, in order."""

    def __init__(self, late: int, payloads: Payloads) -> None:
        self._late = late
        self._payloads = payloads
        self._offers: deque[_Offer] = deque()
        self._last: bytes | None = None

    def restart(self, gone_on: int) -> None:
        """Restart the time-outs: a new leader sends pending messages again."""
        self._offers = deque(replace(offer, waited_from=gone_on) for offer in self._offers)

    def read(self, entry: Entry) -> None:
        if entry.kind is not EntryKind.OWN_MESSAGE:
            return
        what = f"the log has the service's message {shown(entry.payload, self._payloads)} at position {entry.position}"
        expected = self._offers.popleft() if self._offers else None
        if expected is not None and expected.message == entry.payload:
            self._last = entry.payload
            return
        if entry.payload == self._last:
            raise _Broken(entry.position, f"{what} once more, and a replay offers it once")
        if expected is None:
            raise _Broken(entry.position, f"{what}, and a replay has offered none by then")
        wanted = f"{shown(expected.message, self._payloads)} at position {expected.position}"
        if any(offer.message == entry.payload for offer in self._offers):
            raise _Broken(entry.position, f"{what}, and lacks the one that a replay offers before it, {wanted}")
        raise _Broken(entry.position, f"{what}, and what a replay offers is {wanted}")

    def ask(self, entry: Entry, effects: Effects, gone_on: int) -> None:
        self._offers.extend(_Offer(message, entry.position, gone_on) for message in effects.offers)

    def require_in_time(self, entry: Entry, gone_on: int) -> None:
        if self._offers and gone_on - self._offers[0].waited_from > self._late:
            offer = self._offers[0]
            detail = f"a replay offers {shown(offer.message, self._payloads)} at position {offer.position}"
            raise _Broken(entry.position, f"{detail}, and the log does not have it by position {entry.position}")


@dataclass(frozen=True, slots=True)
class _Setting:
    """A scheduled timer. `due_at` is when the log reached its deadline, `ended_at` when it was cancelled or
    rescheduled.
    """

    deadline: int
    position: int
    due_at: int | None = None
    ended_at: int | None = None


class _Timers:
    """The scheduled timers, and those that may still fire because their expiry was on the way."""

    def __init__(self, units_per_ms: int, *, has_other_services: bool) -> None:
        self._units_per_ms = units_per_ms
        self._late = LATE_MS * units_per_ms
        self._crossing = CROSSING_MS * units_per_ms
        self._has_other_services = has_other_services
        self._set: dict[int, _Setting] = {}
        self._replaced: dict[int, _Setting] = {}
        self._uncertain: set[int] = set()
        """Timers that were set again while an expiry was on its way: members may have matched it with either."""
        self._fired: dict[int, int] = {}
        """The position of the expiry of each timer that was not scheduled again."""
        self._latest: dict[int, int] = {}
        """The position of the last expiry of each timer."""
        self._deadlines: list[tuple[int, int]] = []
        self._due: set[int] = set()

    def restart(self, gone_on: int) -> None:
        """Restart the time-outs of due timers: a new leader has its own timer wheel."""
        for timer in self._due & self._set.keys():
            self._set[timer] = replace(self._set[timer], due_at=gone_on)

    def read(self, entry: Entry, gone_on: int) -> None:
        if entry.kind is not EntryKind.TIMER:
            return
        timer, now = entry.subject, entry.timestamp
        what = f"timer {timer} fires at position {entry.position}"
        setting = self._set.get(timer)
        if setting is not None and now >= setting.deadline:
            del self._set[timer]
            self._uncertain.discard(timer)
            self._fired[timer] = self._latest[timer] = entry.position
            self._require_punctual(entry, setting, gone_on)
            return
        if self._was_on_its_way(timer, now, gone_on):
            self._uncertain.add(timer)
            return
        if setting is not None:
            early = (setting.deadline - now) / self._units_per_ms
            latest = f"; it fired last at position {self._latest[timer]}" if timer in self._latest else ""
            raise _Broken(entry.position, f"{what}, {early:g} ms before its deadline {setting.deadline}{latest}")
        if timer in self._uncertain:
            self._uncertain.discard(timer)
            return
        if timer in self._fired:
            detail = f"{what}, and it fired before at position {self._fired[timer]}; a replay sets it once"
            raise _Broken(entry.position, detail)
        if timer in self._replaced:
            raise _Broken(entry.position, f"{what}, and a replay cancels it long before")
        if not self._has_other_services:
            raise _Broken(entry.position, f"{what}, and a replay does not set it")

    def _require_punctual(self, entry: Entry, setting: _Setting, gone_on: int) -> None:
        late = 0 if setting.due_at is None else gone_on - setting.due_at
        if late > self._late:
            after = (entry.timestamp - setting.deadline) / self._units_per_ms
            detail = f"timer {entry.subject} fires at position {entry.position}, {after:g} ms after its deadline"
            raise _Broken(entry.position, f"{detail} {setting.deadline}")

    def _was_on_its_way(self, timer: int, now: int, gone_on: int) -> bool:
        setting = self._replaced.get(timer)
        if setting is None or setting.ended_at is None or now < setting.deadline:
            return False
        return gone_on - setting.ended_at <= self._crossing

    def ask(self, entry: Entry, effects: Effects, gone_on: int) -> None:
        for timer, deadline in effects.timers:
            before = self._set.pop(timer, None)
            if before is not None:
                self._replaced[timer] = replace(before, ended_at=gone_on)
            if deadline is not None:
                self._fired.pop(timer, None)
                self._set[timer] = _Setting(deadline, entry.position)
                heappush(self._deadlines, (deadline, timer))
        while self._deadlines and self._deadlines[0][0] <= entry.timestamp:
            deadline, timer = heappop(self._deadlines)
            setting = self._set.get(timer)
            if setting is not None and setting.deadline == deadline and setting.due_at is None:
                self._set[timer] = replace(setting, due_at=gone_on)
                self._due.add(timer)

    def require_in_time(self, entry: Entry, gone_on: int) -> None:
        for timer in sorted(self._due):
            setting = self._set.get(timer)
            if setting is None or setting.due_at is None:
                self._due.discard(timer)
            elif gone_on - setting.due_at > self._late and timer not in self._uncertain:
                detail = f"timer {timer}, which a replay sets at position {setting.position}"
                when = f"for {setting.deadline}, has not fired by position {entry.position}"
                raise _Broken(entry.position, f"{detail} {when}")
