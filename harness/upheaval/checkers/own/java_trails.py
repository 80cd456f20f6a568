"""Compares what copies of a Java service did.

This module knows values only: entries of a log and trails of copies. It runs nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from upheaval.checkers.own import cuts
from upheaval.checkers.own.effects import Effects, Entry
from upheaval.checkers.own.java_copies import CopyTrail, TakenState
from upheaval.checkers.states.state_diff import state_difference
from upheaval.records import AS_TEXT, Payloads

WHOLE: Final = "one that read the whole log"
_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class Difference:
    """The first deviation of a copy, in words that follow its name, and the position of the entry."""

    text: str
    position: int
    raised: str = ""
    """What the copy raises, if it differs in that, or why it does not read the whole log."""
    is_of_members: bool = False
    """Whether it is one between what members did and what copies do."""


def first_difference(
    entries: Sequence[Entry], whole: CopyTrail, other: CopyTrail, *, hears: bool = True, payloads: Payloads = AS_TEXT
) -> Difference | None:
    """How `other` first differs from `whole`, which started at the first entry; None if it does not.

    Without `hears`, messages to sessions and closed sessions are not compared, because only a leader may send them.
    `payloads` shows messages.
    """
    begin, count = other.plan.begin, len(entries)
    ones, others = whole.effects_of(count), other.effects_of(count)
    if not hears:
        ones, others = [_asked(one) for one in ones], [_asked(other) for other in others]
    done = cuts.first_difference(ones, others, begin, payloads=payloads)
    wrote = _first_state(whole, other)
    if done is not None and (wrote is None or done.index < wrote[0].entries):
        entry = entries[done.index]
        text = f"{done.other} where {WHOLE} {done.whole}, at the entry at position {entry.position}, {entry.text}"
        raised = others[done.index - begin].raised if done.aspect is cuts.Aspect.RAISED else ""
        return Difference(text, entry.position, raised)
    if wrote is not None:
        right, wrong = wrote
        text = f"writes another snapshot after position {wrong.position}: {_state_difference(right, wrong, payloads)}"
        return Difference(text, wrong.position)
    if other.ended:
        return Difference(other.ended, entries[begin - 1].position if begin else 0, other.ended)
    return None


def _asked(effects: Effects) -> Effects:
    """The effects without those that clients notice."""
    return replace(effects, egress=(), closed=())


def _first_state(whole: CopyTrail, other: CopyTrail) -> tuple[TakenState, TakenState] | None:
    rights = {state.entries: state for state in whole.states}
    pairs = ((rights[state.entries], state) for state in other.states if state.entries in rights)
    return next(((right, wrong) for right, wrong in pairs if right.digest != wrong.digest), None)


def _state_difference(one: TakenState, other: TakenState, payloads: Payloads) -> str:
    if one.messages is None or other.messages is None:
        return f"digest {other.digest[:_DIGITS]} instead of {one.digest[:_DIGITS]}"
    return state_difference(one.messages, other.messages, (WHOLE, "that one"), payloads)
