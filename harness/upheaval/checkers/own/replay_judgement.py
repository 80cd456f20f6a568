"""Replays a log with copies of a service, each in a child process, and compares their effects.

The effects of the first copy, which reads the whole log, are compared with the log itself (`asked_of_log`). A second
copy does the same with another clock, random numbers and addresses: where these two differ, no third copy can be
measured. At each of a few places (`cuts`) another copy starts from the snapshot that the second one takes there, writes
it again, reads the rest of the log, and receives the last client requests once more. Time and memory are bounded; the
result says how many of the places were compared.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from upheaval.checkers.evidence.events import units_of_ms
from upheaval.checkers.own import replay_conditions
from upheaval.checkers.own.apart import apart
from upheaval.checkers.own.asked_of_log import Unasked, log_against_asked
from upheaval.checkers.own.canonical_form import State, what_it_hides
from upheaval.checkers.own.cuts import Difference, first_difference, rank_cuts
from upheaval.checkers.own.effects import Effects, Entry, EntryKind
from upheaval.checkers.own.played import entries_of, raised_text
from upheaval.checkers.states.replay import ExpectedState, LoggedMessage, Member, Replay, is_request, state_hash
from upheaval.checkers.states.state_diff import state_difference
from upheaval.records import AS_TEXT, Payloads
from upheaval_node.service.api import ClusterRole

PROBES: Final = 200
"""The number of last client messages that are sent once more."""
BUDGET_S: Final = 20.0
"""Seconds of processor time, after which no further place is compared."""
SNAPSHOTS_MAX: Final = 128 << 20
"""Bytes of all snapshots together."""
_POINTS: Final = 60
"""The number of states compared at a time in the search for an entry."""
_NAMES: Final = ("one that read the whole log", "that one")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the copies show of a service.

    `hashes` are those of states by position; `forms` maps them to the hashes of canonical forms. `difference` is the
    first deviation of a copy that started from the snapshot at `position`. `unsteady` is how two copies of the whole
    log differ in what they offer or schedule, `answers` how they differ in their answers. `compared` of `chosen` places
    were compared; `why_cut` says why not all, unless a difference was the reason.
    """

    hashes: dict[int, str]
    forms: dict[str, str]
    has_form: bool
    form_error: str
    """What the form raised, or what it hides if it was refused. States are then compared as they are."""
    difference: str
    position: int
    unsteady: str
    unsteady_position: int
    answers: str
    unasked: str
    unasked_position: int
    compared: int
    chosen: int
    why_cut: str


@dataclass(frozen=True, slots=True)
class _Whole:
    """The effects of the first copy, those of the probes last, and the canonical form of its last state."""

    hashes: dict[int, str]
    forms: dict[str, str]
    has_form: bool
    form_error: str
    effects: list[Effects]
    units_per_ms: int
    end: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class _Control:
    """How the second copy differed, and the snapshots that it took."""

    answers: Difference | None
    unsteady: Difference | None
    has_equal_end: bool
    states: list[tuple[int, ExpectedState]]
    has_all: bool
    """Whether the snapshots at all places fit into the memory for them."""


def judge_replays(
    service: str,
    log: Sequence[LoggedMessage],
    *,
    has_other_services: bool = False,
    untimed_ms: Sequence[tuple[int, int]] = (),
    payloads: Payloads = AS_TEXT,
    budget_s: float = BUDGET_S,
    snapshots_max: int = SNAPSHOTS_MAX,
) -> Judgement:
    """Judge the service with that name. `payloads` shows messages; `budget_s` is in seconds of processor time,
    `snapshots_max` in bytes of all snapshots together. `untimed_ms`: see `log_against_asked`.

    Exits this process if the service raises where a member would not start.
    """
    copies = _Copies(
        service,
        log,
        has_other_services=has_other_services,
        untimed_ms=untimed_ms,
        payloads=payloads,
        budget_s=budget_s,
        snapshots_max=snapshots_max,
    )
    return copies.judged()


def _spent_s() -> float:
    """Seconds of processor time of this process and its ended children."""
    return sum(os.times()[:4])


def _length(state: ExpectedState) -> int:
    return sum(map(len, state.messages))


class _Copies:
    """The copies of one service, and their log."""

    def __init__(
        self,
        service: str,
        log: Sequence[LoggedMessage],
        *,
        has_other_services: bool,
        untimed_ms: Sequence[tuple[int, int]],
        payloads: Payloads,
        budget_s: float,
        snapshots_max: int,
    ) -> None:
        self._service = service
        self._log = log
        self._payloads = payloads
        self._entries = entries_of(log, payloads)
        self._has_other_services = has_other_services
        self._untimed_ms = untimed_ms
        self._requests = [message for message in log if is_request(message)][-PROBES:]
        self._budget_s = budget_s
        self._snapshots_max = snapshots_max
        self._end_s = _spent_s() + budget_s
        self._refused = ""
        """What the canonical form hides; then states are compared as they are."""

    def judged(self) -> Judgement:
        whole = apart(self._whole)
        read = whole.effects[: len(self._log)]
        cuts = rank_cuts(self._entries, read) if self._entries else ()
        control = self._controlled(whole, cuts)
        if whole.has_form:
            states = [state.messages for _, state in control.states]
            self._refused = apart(lambda: what_it_hides(Replay(self._service, is_own=True).form, states))
        if self._refused:
            whole = replace(apart(self._whole), has_form=False, form_error=self._refused)
            control = self._controlled(whole, cuts)
        place, compared, difference = -1, 0, ""
        for cut, state in control.states:
            if compared and _spent_s() > self._end_s:
                break
            difference = self._compared(whole, control, cut, state)
            place, compared = state.position, compared + 1
            if difference:
                break
        unasked = self._unasked(read, whole.units_per_ms)
        return Judgement(
            whole.hashes,
            whole.forms,
            whole.has_form,
            whole.form_error,
            difference,
            place,
            self._parted(control.unsteady),
            -1 if control.unsteady is None else self._place(control.unsteady),
            self._parted(control.answers),
            "" if unasked is None else unasked.detail + self._asked_by_leader(whole.units_per_ms),
            -1 if unasked is None else unasked.position,
            compared,
            len(cuts),
            self._why_cut(control) if compared < len(cuts) and not difference else "",
        )

    def _why_cut(self, control: _Control) -> str:
        if not control.has_all:
            return f"their snapshots are longer than {self._snapshots_max / (1 << 20):.3g} MiB together"
        return f"the budget of {self._budget_s:g} s of a processor was spent"

    def _form(self, replay: Replay, messages: Sequence[bytes]) -> tuple[bytes, ...]:
        return tuple(messages) if self._refused else replay.form(messages)

    # --- copies ---

    def _whole(self) -> _Whole:
        replay = Replay(self._service, is_own=True, hears=True)
        effects, hashes, forms = [], {}, {}
        for message, entry in zip(self._log, self._entries, strict=True):
            effects.append(replay.follow(message))
            if entry.kind is EntryKind.SNAPSHOT:
                messages = replay.state().messages
                hashes[message.position] = state_hash(messages)
                forms[hashes[message.position]] = state_hash(self._form(replay, messages))
        units = units_of_ms(replay.state().time_unit)
        effects += self._probed(replay)
        end = self._form(replay, replay.state().messages)
        error = "" if replay.form_error is None else raised_text(replay.form_error)
        return _Whole(hashes, forms, replay.has_form, error, effects, units, end)

    def _controlled(self, whole: _Whole, cuts: Sequence[int]) -> _Control:
        left_s = self._end_s - _spent_s()
        return apart(lambda: self._control(whole, cuts, left_s))

    def _control(self, whole: _Whole, cuts: Sequence[int], left_s: float) -> _Control:
        """Run the second copy, with at most `left_s` seconds of processor time for snapshots.

        If all snapshots do not fit into the memory for them, the places that show least get none.
        """
        unsettled = replay_conditions.unsettle()
        replay = Replay(self._service, is_own=True, hears=True)
        effects: list[Effects] = []
        states: dict[int, ExpectedState] = {}
        left, has_all = self._snapshots_max, True
        for number, message in enumerate([*self._log, None]):
            if number in cuts and (not states or _spent_s() < left_s):
                states[number] = replay.state()
                left -= _length(states[number])
                while left < 0:
                    left += _length(states.pop(max(states, key=cuts.index)))
                    has_all = False
            if message is not None:
                effects.append(replay.follow(message))
        effects += self._probed(replay)
        has_equal_end = self._form(replay, replay.state().messages) == whole.end
        del unsettled
        read = len(self._log)
        unsteady = self._first_difference(whole.effects[:read], effects[:read], 0, with_egress=False)
        answers = self._first_difference(whole.effects, effects, 0)
        return _Control(answers, unsteady, has_equal_end, list(states.items()), has_all)

    def _first_difference(
        self, whole: Sequence[Effects], other: Sequence[Effects], cut: int, *, with_egress: bool = True
    ) -> Difference | None:
        return first_difference(whole, other, cut, with_egress=with_egress, payloads=self._payloads)

    def _state_difference(self, one: State, other: State, names: tuple[str, str] = _NAMES) -> str:
        return state_difference(one, other, names, self._payloads)

    def _probed(self, replay: Replay) -> Iterator[Effects]:
        return (replay.probe(request) for request in self._requests)

    def _compared(self, whole: _Whole, control: _Control, cut: int, state: ExpectedState) -> str:
        """How a copy that starts from that state differs; empty if it does not."""
        if control.unsteady is not None:
            return ""
        with_egress = control.answers is None

        def begun() -> str | tuple[Difference | None, tuple[bytes, ...]]:
            try:
                return compared()
            except Exception as error:  # noqa: BLE001 - where it starts, or writes a snapshot
                return raised_text(error)

        def compared() -> str | tuple[Difference | None, tuple[bytes, ...]]:
            replay = Replay(self._service, state, is_own=True, hears=True)
            again = replay.state().messages
            ours, theirs = self._form(replay, state.messages), self._form(replay, again)
            if control.has_equal_end and ours != theirs:
                names = ("the one that it began with", "the one that it writes")
                return f"writes another snapshot at once: {self._state_difference(ours, theirs, names)}"
            effects = [replay.follow(message) for message in self._log[cut:]]
            effects += self._probed(replay)
            difference = self._first_difference(whole.effects, effects, cut, with_egress=with_egress)
            return difference, self._form(replay, replay.state().messages)

        outcome = apart(begun)
        if isinstance(outcome, str):
            return outcome
        difference, end = outcome
        if difference is not None:
            return f"{difference.other} where one that read the whole log {difference.whole}, {self._where(difference)}"
        if control.has_equal_end and end != whole.end:
            return self._located(cut, state) or (
                f"writes another snapshot at the end: {self._state_difference(whole.end, end)}"
            )
        return ""

    # --- the first entry with different states ---

    def _located(self, cut: int, state: ExpectedState) -> str:
        """The first entry after which the snapshots of both differ, and where they differ; empty if there is none."""
        low, high = cut - 1, len(self._log) - 1
        if self._states_at(None, {high}) == self._states_at((cut, state), {high}):
            return ""
        while high - low > 1:
            step = max((high - low) // _POINTS, 1)
            points = {*range(high, low, -step)}
            ours, theirs = self._states_at(None, points), self._states_at((cut, state), points)
            differing = min(index for index in points if ours[index] != theirs[index])
            low, high = max((index for index in points if index < differing), default=low), differing
        one = apart(lambda: self._state_after(None, high))
        two = apart(lambda: self._state_after((cut, state), high))
        where = f"first after {self._entries[high].text} at position {self._entries[high].position}"
        return f"writes another snapshot, {where}: {self._state_difference(one, two)}"

    def _states_at(self, begin: tuple[int, ExpectedState] | None, points: set[int]) -> dict[int, str]:
        def taken() -> dict[int, str]:
            replay, first = self._begun(begin)
            states = {}
            for index, message in enumerate(self._log[first:], first):
                replay.follow(message)
                if index in points:
                    states[index] = state_hash(self._form(replay, replay.state().messages))
            return states

        return apart(taken)

    def _state_after(self, begin: tuple[int, ExpectedState] | None, index: int) -> tuple[bytes, ...]:
        replay, first = self._begun(begin)
        for message in self._log[first : index + 1]:
            replay.follow(message)
        return self._form(replay, replay.state().messages)

    def _begun(self, begin: tuple[int, ExpectedState] | None) -> tuple[Replay, int]:
        if begin is None:
            return Replay(self._service, is_own=True, hears=True), 0
        return Replay(self._service, begin[1], is_own=True, hears=True), begin[0]

    # --- the log ---

    def _unasked(self, effects: Sequence[Effects], units_per_ms: int) -> Unasked | None:
        return log_against_asked(
            self._entries,
            effects,
            units_per_ms,
            has_other_services=self._has_other_services,
            untimed_ms=self._untimed_ms,
            payloads=self._payloads,
        )

    def _asked_by_leader(self, units_per_ms: int) -> str:
        """A hint if a copy that leads requests what the log has; otherwise empty."""
        member = Member(role=ClusterRole.LEADER)

        def led() -> list[Effects]:
            replay = Replay(self._service, is_own=True, hears=True, member=member)
            return [replay.follow(message) for message in self._log]

        if self._unasked(apart(led), units_per_ms) is not None:
            return ""
        return "; a copy that leads asks for all of it: cluster.role or on_role_change?"

    # --- descriptions ---

    def _parted(self, difference: Difference | None) -> str:
        if difference is None:
            return ""
        return f"one {difference.whole}, the other {difference.other}, {self._where(difference)}"

    def _where(self, difference: Difference) -> str:
        if difference.index >= len(self._entries):
            request = self._request(difference)
            return f"asked with {request.text} once more"
        entry = self._entries[difference.index]
        return f"at {entry.text}, at position {entry.position}"

    def _place(self, difference: Difference) -> int:
        if difference.index >= len(self._entries):
            return self._request(difference).position
        return self._entries[difference.index].position

    def _request(self, difference: Difference) -> Entry:
        requests = [entry for entry in self._entries if entry.kind is EntryKind.REQUEST]
        return requests[difference.index - len(self._entries) - len(self._requests)]
