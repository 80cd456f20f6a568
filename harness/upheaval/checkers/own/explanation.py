"""Finds out why the state of a user's service is not what its log gives, by replays that differ in one thing only.

Two replays without any change must agree. Each change that makes a third one differ is a cause; the first entry of the
log after which it does is found by comparing the states at a few entries, then at a few between two of these. This is
done for runs that are invalid already, in bounded time.
"""

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from upheaval.checkers.own.causes import CONDITIONS, OF_MEMBERS, Cause, Explanation
from upheaval.checkers.own.own_replay import CannotReplay, OwnReplay, ask
from upheaval.checkers.own.replay_process import Order, Task, decode_state
from upheaval.checkers.states.state_diff import state_difference

LONGEST_S: Final = 180.0
"""Afterwards what is known by then is told."""
SAMPLES: Final = 60
"""States of one replay that are compared at a time."""
_AT_ONCE: Final = 2


def explain(own: OwnReplay, position: int) -> Explanation | None:
    """Why states differ at the snapshot at `position`; None where replays do not tell."""
    if own.order is None:
        return None
    order = replace(own.order, end=position, changed=(), task=Task.SAMPLES, count=SAMPLES)
    try:
        return _Replays(order).explained(own.form(own.hashes.get(position, "")))
    except CannotReplay:
        return None


class _Replays:
    """Replays of one log, until the time is up."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._deadline_s = time.monotonic() + LONGEST_S

    def explained(self, changed_state: str) -> Explanation | None:
        usual, again = self._asked([self._order] * 2)
        explanation = self._compared(usual, again, changed_state)
        causes = () if explanation is None else explanation.causes
        # A thread may hide behind any of them: its turns are other ones in each replay.
        asked = tuple(text for cause, text in usual["asked"] if cause in {*causes, Cause.OUTSIDE})
        return replace(explanation or Explanation(()), asked=asked) if explanation or asked else None

    def _compared(self, usual: dict[str, Any], again: dict[str, Any], changed_state: str) -> Explanation | None:
        if usual["samples"] != again["samples"]:
            return Explanation((Cause.EACH_REPLAY,))
        found = self._causes(CONDITIONS, usual) or self._causes(OF_MEMBERS, usual)
        if Cause.ADDRESSES in found:
            # Whatever else is changed moves objects, too.
            found = {Cause.ADDRESSES: found[Cause.ADDRESSES]}
        if not found:
            is_same = changed_state == list(usual["samples"].values())[-1]
            return Explanation((Cause.OUTSIDE,)) if is_same else None
        causes = tuple(found)
        try:
            return self._located(causes, usual, found[causes[0]])
        except CannotReplay:
            return Explanation(causes)

    def _causes(self, tried: Iterable[Cause], usual: dict[str, Any]) -> dict[Cause, dict[str, Any]]:
        causes = list(tried)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            told = list(pool.map(self._tried, [replace(self._order, changed=(each,)) for each in causes]))
        pairs = zip(causes, told, strict=True)
        return {cause: each for cause, each in pairs if each and each["samples"] != usual["samples"]}

    def _located(self, causes: tuple[Cause, ...], usual: dict[str, Any], other: dict[str, Any]) -> Explanation:
        both = [self._order, replace(self._order, changed=causes[:1])]
        low, high = _interval(usual["samples"], other["samples"], -1)
        while high - low > 1:
            one, two = self._asked([replace(each, low=low, high=high) for each in both])
            low, high = _interval(one["samples"], two["samples"], low)
        one, two = self._asked([replace(each, task=Task.SHOW, high=high) for each in both])
        states = [decode_state(each["state"]) for each in (one, two)]
        names = ("the one", "the other")
        difference = state_difference(states[0], states[1], names) if states[0] != states[1] else ""
        return Explanation(causes, one["position"], one["entry"], (one["result"], two["result"]), difference)

    def _asked(self, orders: Iterable[Order]) -> list[dict[str, Any]]:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(self._ask, orders))

    def _tried(self, order: Order) -> dict[str, Any] | None:
        """None where the service does not run with that change, and when the time is up."""
        with suppress(CannotReplay):
            return self._ask(order)
        return None

    def _ask(self, order: Order) -> dict[str, Any]:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise CannotReplay("the time is up")
        return ask(order, timeout_s=left_s)


def _interval(one: dict[str, str], other: dict[str, str], low: int) -> tuple[int, int]:
    """Indices of an entry after which both were equal, or `low`, and of the first sample after it that differs."""
    for index in sorted(map(int, one)):
        if one[str(index)] != other.get(str(index)):
            return low, index
        low = index
    raise CannotReplay("the difference was not seen again")
