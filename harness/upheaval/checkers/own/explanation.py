"""Finds out why the state of a user's service is not what its log gives, by replays that differ in one condition only.

Two replays without changes must agree. Each change that makes a third replay differ is a cause. The first entry after
which it differs is found by comparing states at a few entries, then at a few entries in the interval found. Changes are
tried in groups: a group without effect is done; a group with an effect is halved. The conditions of members are tried
in the same way: to start from a snapshot, and to lead in some terms. All this is done only for runs that are already
invalid, in bounded time.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from upheaval.checkers.own.causes import CONDITIONS, OF_MEMBERS, Cause, Explanation
from upheaval.checkers.own.interpreters import Interpreters, shared_interpreters
from upheaval.checkers.own.own_replay import CannotReplay, OwnReplay, ask
from upheaval.checkers.own.replay_conditions import MORE_HASH_SEEDS
from upheaval.checkers.own.replay_process import Order, Task, decode_state
from upheaval.checkers.states.state_diff import state_difference
from upheaval.records import Payloads, RunFolder

LONGEST_S: Final = 600.0
"""Seconds. Then the explanation has what is known so far."""
SAMPLES: Final = 60
"""The number of states of one replay that are compared at a time."""
SNAPSHOTS_MAX: Final = 4
"""The number of snapshots tried as a start, the latest first."""
_AT_ONCE: Final = 2

_Group = tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class RecordedState:
    """The service state of a member (or of a standby, id -1) at the position in question."""

    owner: str
    member_id: int
    form: str
    """The hash of the canonical form."""
    messages: tuple[bytes, ...]


def explain(
    own: OwnReplay,
    position: int,
    recorded: Sequence[RecordedState] = (),
    snapshots: Iterable[int] = (),
    *,
    compares_requests: bool = False,
) -> Explanation | None:
    """Explain why states differ at the snapshot at `position`; None if replays do not show it.

    `recorded` are the states of members there, `snapshots` the positions of all their snapshots. With
    `compares_requests`, replays differ in what they offer and schedule up to the position, instead of in states.
    """
    if own.order is None:
        return None
    order = replace(
        own.order, end=position, changed=(), task=Task.SAMPLES, count=SAMPLES, compares_requests=compares_requests
    )
    begins = sorted((snapshot for snapshot in snapshots if snapshot < position), reverse=True)[:SNAPSHOTS_MAX]
    try:
        with shared_interpreters() as interpreters:
            return _Replays(interpreters, order, recorded, begins).explained(own.form(own.hashes.get(position, "")))
    except CannotReplay:
        return None


class _Replays:
    """Replays of one log, until the time is up."""

    def __init__(
        self, interpreters: Interpreters, order: Order, recorded: Sequence[RecordedState], begins: Sequence[int]
    ) -> None:
        self._interpreters = interpreters
        self._order = order
        self._payloads = Payloads.of(RunFolder(order.run))
        self._recorded = recorded
        self._begins = begins if recorded else ()
        self._deadline_s = time.monotonic() + LONGEST_S

    def explained(self, changed_state: str) -> Explanation | None:
        usual, again = self._asked([self._order] * 2)
        explanation = self._compared(usual, again, changed_state)
        causes = () if explanation is None else explanation.causes
        # A thread may be behind any cause, since threads are scheduled differently in each replay.
        asked = tuple(text for cause, text in usual["asked"] if cause in {*causes, Cause.OUTSIDE})
        return replace(explanation or Explanation(()), asked=asked) if explanation or asked else None

    def _compared(self, usual: dict[str, Any], again: dict[str, Any], changed_state: str) -> Explanation | None:
        if usual["samples"] != again["samples"]:
            return self._located(Explanation((Cause.EACH_REPLAY,)), usual, again, self._order)
        explanation = self._of_conditions(usual) or self._from_snapshot(usual)
        if explanation is not None:
            return explanation
        members = self._causes(_halves(OF_MEMBERS), usual)
        as_members = self._as_members(usual) if Cause.ROLE in members or self._are_divided else ()
        if members:
            return replace(self._of_changes(members, usual), as_members=as_members)
        if as_members:
            return Explanation((Cause.ROLE,), as_members=as_members)
        return self._of_hash_seeds(usual) or self._outside(usual, changed_state)

    # --- changed conditions ---

    def _of_conditions(self, usual: dict[str, Any]) -> Explanation | None:
        """The conditions with an effect. Every change moves the moments at which the garbage collector runs, so if it
        has an effect, the others are tried without it.
        """
        order = self._order
        without = self._changed((Cause.COLLECTOR,))
        collected = self._tried(without)
        if collected is None or collected["samples"] == usual["samples"]:
            by_cause = self._other_conditions(usual)
            return self._of_changes(by_cause, usual) if by_cause else None
        self._order = without
        by_cause = self._other_conditions(collected)
        if not by_cause:
            self._order = order
            return self._of_changes({Cause.COLLECTOR: collected}, usual)
        explanation = self._of_changes(by_cause, collected)
        if Cause.ADDRESSES in by_cause:
            return explanation
        return replace(explanation, causes=tuple(cause for cause in Cause if cause in {*by_cause, Cause.COLLECTOR}))

    def _other_conditions(self, usual: dict[str, Any]) -> dict[Cause, dict[str, Any]]:
        """Every change moves objects, too, so if addresses have an effect, no other cause can be shown."""
        addresses = (Cause.ADDRESSES,)
        others = [condition for condition in CONDITIONS if condition not in (*addresses, Cause.COLLECTOR)]
        by_cause = self._causes([addresses, *_halves(others)], usual)
        return {Cause.ADDRESSES: by_cause[Cause.ADDRESSES]} if Cause.ADDRESSES in by_cause else by_cause

    def _causes(self, groups: Iterable[_Group], usual: dict[str, Any]) -> dict[Cause, dict[str, Any]]:
        """The causes that have an effect alone, each with its replay."""
        by_cause: dict[Cause, dict[str, Any]] = {}
        left = list(groups)
        while left:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                replays = list(pool.map(self._tried, map(self._changed, left)))
            halves: list[_Group] = []
            for group, replayed in zip(left, replays, strict=True):
                if replayed is not None and replayed["samples"] == usual["samples"]:
                    continue
                if len(group) > 1:
                    halves += _halves(group)
                elif replayed is not None:
                    by_cause[group[0]] = replayed
            left = [] if Cause.ADDRESSES in by_cause else halves
        return {cause: by_cause[cause] for cause in Cause if cause in by_cause}

    def _of_hash_seeds(self, usual: dict[str, Any]) -> Explanation | None:
        """The explanation if two hash seeds leave the states alike, and a third one does not."""
        for seed in MORE_HASH_SEEDS:
            order = replace(self._order, hash_seed=seed)
            replayed = self._tried(order)
            if replayed is not None and replayed["samples"] != usual["samples"]:
                return self._located(Explanation((Cause.HASH_SEED,)), usual, replayed, order)
        return None

    def _of_changes(self, by_cause: Mapping[Cause, dict[str, Any]], usual: dict[str, Any]) -> Explanation:
        causes = tuple(by_cause)
        return self._located(Explanation(causes), usual, by_cause[causes[0]], self._changed(causes[:1]))

    def _changed(self, causes: _Group) -> Order:
        return replace(self._order, changed=(*self._order.changed, *causes))

    # --- conditions of members ---

    @property
    def _are_divided(self) -> bool:
        return len({recorded.form for recorded in self._recorded}) > 1

    def _from_snapshot(self, usual: dict[str, Any]) -> Explanation | None:
        """A replay from a snapshot that arrives at a member's state, if the replay of the whole log arrives at another;
        else None.
        """
        whole = _end(usual)
        for position in self._begins:
            order = replace(self._order, begin=position)
            replayed = self._tried(order)
            state = whole if replayed is None else _end(replayed)
            begun = self._owners_of(state)
            if replayed is not None and state != whole and begun:
                owners = self._owners_of(whole)
                explanation = Explanation((Cause.SNAPSHOT,), snapshot=position, begun=begun, whole=owners)
                return self._located(explanation, usual, replayed, order)
        return None

    def _as_members(self, usual: dict[str, Any]) -> tuple[str, ...]:
        """The members whose state only a replay with their id and roles arrives at."""
        others = [state for state in self._recorded if state.form != _end(usual) and state.member_id >= 0]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            orders = [replace(self._order, as_member=other.member_id) for other in others]
            replays = list(pool.map(self._tried, orders))
        pairs = zip(others, replays, strict=True)
        return tuple(state.owner for state, replayed in pairs if replayed is not None and _end(replayed) == state.form)

    def _owners_of(self, state: str) -> tuple[str, ...]:
        return tuple(recorded.owner for recorded in self._recorded if recorded.form == state)

    def _outside(self, usual: dict[str, Any], changed_state: str) -> Explanation | None:
        """The explanation if all replays agree and a member differs."""
        if changed_state != _end(usual):
            return None
        explanation = Explanation((Cause.OUTSIDE,))
        other = next((recorded for recorded in self._recorded if recorded.form != changed_state), None)
        replayed = self._tried(replace(self._order, task=Task.SHOW, has_form=False))
        if other is None or replayed is None:
            return explanation
        state = tuple(decode_state(replayed["state"]))
        if state == other.messages:
            return explanation
        return replace(
            explanation,
            difference=state_difference(other.messages, state, (other.owner, "the replays"), self._payloads),
        )

    # --- place of the difference ---

    def _located(
        self, explanation: Explanation, usual: dict[str, Any], other: dict[str, Any], order: Order
    ) -> Explanation:
        """Add the first entry after which `other`, the replay by `order`, differs, or where the last states differ if
        they do not differ there again. Adds nothing if the time is up.
        """
        both = [self._order, order]
        try:
            low, high = _interval(usual["samples"], other["samples"], other["first"] - 1)
            while high - low > 1:
                one, two = self._asked([replace(order, low=low, high=high) for order in both])
                low, high = _interval(one["samples"], two["samples"], low)
            one, two = self._asked([replace(order, task=Task.SHOW, high=high) for order in both])
            names = explanation.causes[0].replays
            difference = self._difference(one, two, names)
            if not difference and not order.compares_requests:
                # When a garbage collector runs depends on what a replay does besides: no entry is the first one.
                one, two = self._asked([replace(order, task=Task.SHOW) for order in both])
                return replace(explanation, difference=self._difference(one, two, names))
        except CannotReplay:
            return explanation
        return replace(
            explanation,
            position=one["position"],
            entry=one["entry"],
            results=(one["result"], two["result"]),
            difference=difference,
        )

    def _difference(self, one: Mapping[str, Any], other: Mapping[str, Any], names: tuple[str, str]) -> str:
        """Where the states of two answers differ; empty if they do not."""
        states = [decode_state(answer["state"]) for answer in (one, other)]
        return state_difference(states[0], states[1], names, self._payloads) if states[0] != states[1] else ""

    def _asked(self, orders: Iterable[Order]) -> list[dict[str, Any]]:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(self._ask, orders))

    def _tried(self, order: Order) -> dict[str, Any] | None:
        """The replay; None if the service does not run with that change, or if the time is up."""
        with suppress(CannotReplay):
            return self._ask(order)
        return None

    def _ask(self, order: Order) -> dict[str, Any]:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise CannotReplay("the time is up")
        return ask(self._interpreters, order, timeout_s=left_s)


def _halves(group: Sequence[Cause]) -> list[_Group]:
    middle = (len(group) + 1) // 2
    return [tuple(half) for half in (group[:middle], group[middle:]) if half]


def _end(replayed: Mapping[str, Any]) -> str:
    """The hash of the last sample."""
    samples: Mapping[str, str] = replayed["samples"]
    return samples[max(samples, key=int)]


def _interval(one: Mapping[str, str], other: Mapping[str, str], low: int) -> tuple[int, int]:
    """The last index with equal samples (at least `low`), and the first with different ones."""
    for index in sorted(int(key) for key in one if key in other):
        if one[str(index)] != other[str(index)]:
            return low, index
        low = index
    raise CannotReplay("the difference was not seen again")
