"""Whether a snapshot holds all of the state: where to take snapshots, and how copies that start from them differ.

One copy reads the whole log. At each of a few places another copy starts from the snapshot that the first one takes
there, and reads the rest of the log. Both must have the same effects at each entry, and equal states at the end. If a
service answers retries from a cache, old requests hide what it forgot, but new entries miss the cache. A snapshot taken
when nothing is pending has nothing to forget, so the places are chosen by the content of the log. This module knows no
language, no process and no file: it takes the values of `effects`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final

from upheaval.checkers.own.effects import Effects, Entry, EntryKind
from upheaval.records import AS_TEXT, Payloads
from upheaval_node.ports import Buffer

CUTS: Final = 9
_RARE: Final = 3
"""The number of places after requests of the rarest shapes."""
_SHAPE_MAX: Final = 4096
"""The number of bytes of a request that determine its shape."""
_BINARY_HEADER: Final = 8
"""Bytes of the SBE header of a binary request: block length, template, schema and version."""
_WORD: Final = re.compile(rb"[A-Za-z_]{2,}")
_SHOWN: Final = 100
_SHOWN_BY_FIELD: Final = 400


class Aspect(StrEnum):
    """The kind of effect in which two copies differ."""

    RAISED = "raised"
    EGRESS = "egress"
    OFFERS = "offers"
    TIMERS = "timers"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first entry at which two copies had different effects. `index` counts entries from 0."""

    index: int
    aspect: Aspect
    whole: str
    """The effect of the copy that read the whole log, in words."""
    other: str


# --- places for snapshots ---


def choose_cuts(entries: Sequence[Entry], effects: Sequence[Effects], most: int = CUTS) -> tuple[int, ...]:
    """Choose at most `most` places, in ascending order. A place is the number of entries before a snapshot; the first
    is 0.

    `effects` are those of a copy that read all of `entries`.
    """
    return tuple(sorted(rank_cuts(entries, effects, most)))


def rank_cuts(entries: Sequence[Entry], effects: Sequence[Effects], most: int = CUTS) -> tuple[int, ...]:
    """The same places, those first that show most."""
    wanted = dict.fromkeys(place for place in _places(entries, effects) if 0 <= place <= len(entries))
    return tuple(islice(wanted, most))


def _places(entries: Sequence[Entry], effects: Sequence[Effects]) -> Iterator[int]:
    """Yield the places, best first, some more than once."""
    yield 0
    snapshots = [index for index, entry in enumerate(entries) if entry.kind is EntryKind.SNAPSHOT]
    yield from (index + 1 for index in snapshots[-1:])
    pending = list(_pending(entries, effects))
    for counts in zip(*pending, strict=True):
        if any(counts):
            # The last of the places with the most pending: more state has accumulated there.
            yield max(range(len(counts)), key=lambda index: (counts[index], index)) + 1
    yield from _after_rare(entries)
    yield from (index + 1 for index in snapshots[:1])
    yield from (len(entries) * eighth // 8 for eighth in (4, 2, 6, 7, 1, 3, 5))
    yield from range(len(entries))


def _pending(entries: Sequence[Entry], effects: Sequence[Effects]) -> Iterator[tuple[int, int, int]]:
    """Yield what is pending after each entry: scheduled timers, messages on the way, and open sessions (after requests
    only).
    """
    timers: set[int] = set()
    messages = sessions = 0
    for entry, effect in zip(entries, effects, strict=True):
        if entry.kind is EntryKind.TIMER:
            timers.discard(entry.subject)
        messages = max(messages - (entry.kind is EntryKind.OWN_MESSAGE), 0) + len(effect.offers)
        sessions += (entry.kind is EntryKind.SESSION_OPEN) - (entry.kind is EntryKind.SESSION_CLOSE)
        for timer, deadline in effect.timers:
            (timers.discard if deadline is None else timers.add)(timer)
        yield len(timers), messages, sessions if entry.kind is EntryKind.REQUEST else 0


def _after_rare(entries: Sequence[Entry]) -> Iterator[int]:
    """Yield the places after the rarest shapes of requests: a setting is made once and matters ever after."""
    shapes = {index: _shape(entry.payload) for index, entry in enumerate(entries) if entry.kind is EntryKind.REQUEST}
    counts = Counter(shapes.values())
    first = {shape: index for index, shape in reversed(shapes.items())}
    rare = sorted((shape for shape in counts if counts[shape] * 10 <= len(shapes)), key=lambda one: counts[one])
    yield from (first[shape] + 1 for shape in rare[:_RARE])


def _shape(payload: bytes) -> object:
    """The common part of requests of one kind: the set of words of a text, the header of a binary message."""
    begin = payload[:_SHAPE_MAX]
    if all(byte >= ord(" ") for byte in begin[:_BINARY_HEADER]):
        return frozenset(_WORD.findall(begin))
    return begin[:_BINARY_HEADER]


# --- differences ---


def first_difference(
    whole: Sequence[Effects],
    other: Sequence[Effects],
    cut: int,
    *,
    with_egress: bool = True,
    payloads: Payloads = AS_TEXT,
) -> Difference | None:
    """The first different effect of the copy that started at `cut`; None if there is none.

    `whole` are the effects of the copy that read all entries, `other` those from `cut` on. Without `with_egress`,
    answers are not compared, for services that answer differently even in two replays of the whole log. `payloads`
    shows messages.
    """
    for index, (done, done_otherwise) in enumerate(zip(whole[cut:], other, strict=True), cut):
        for aspect in Aspect:
            if aspect is Aspect.EGRESS and not with_egress:
                continue
            ours, theirs = _in(aspect, done), _in(aspect, done_otherwise)
            if ours != theirs:
                one, two = _text(aspect, ours, theirs, payloads), _text(aspect, theirs, ours, payloads)
                return Difference(index, aspect, one, two)
    return None


def _in(aspect: Aspect, effects: Effects) -> tuple[object, ...]:
    """The effects to compare. The order among sessions or timers at one entry does not count."""
    match aspect:
        case Aspect.RAISED:
            return (effects.raised,) if effects.raised else ()
        case Aspect.EGRESS:
            return tuple(sorted(effects.egress, key=lambda sent: sent[0]))
        case Aspect.OFFERS:
            return effects.offers
        case Aspect.TIMERS:
            return tuple(sorted(effects.timers, key=lambda timer: timer[0]))
        case Aspect.CLOSED:
            return tuple(sorted(effects.closed))


def _text(aspect: Aspect, values: tuple[object, ...], others: tuple[object, ...], payloads: Payloads) -> str:
    """Describe the first value that differs from the others' value in its place."""
    pairs = zip(values, (*others, *[None] * len(values)), strict=False)
    value = next((value for value, opposite in pairs if value != opposite), None)
    match aspect, value:
        case Aspect.RAISED, str(name):
            return f"raises {name}"
        case Aspect.RAISED, _:
            return "raises nothing"
        case Aspect.EGRESS, (int(session), bytes(message)):
            return f"sends {shown(message, payloads)} to session {session}"
        case Aspect.EGRESS, _:
            return "sends nothing"
        case Aspect.OFFERS, bytes(message):
            return f"offers {shown(message, payloads)} to the log"
        case Aspect.OFFERS, _:
            return "offers nothing to the log"
        case Aspect.TIMERS, (int(timer), None):
            return f"cancels timer {timer}"
        case Aspect.TIMERS, (int(timer), int(deadline)):
            return f"sets timer {timer} for {deadline}"
        case Aspect.TIMERS, _:
            return "sets no timer"
        case Aspect.CLOSED, int(session):
            return f"closes session {session}"
        case _:
            return "closes no session"


def shown(message: Buffer, payloads: Payloads = AS_TEXT) -> str:
    """The beginning of a message in words; by type and field if the run has a schema."""
    if payloads.schema is None:
        return repr(bytes(message).decode("utf-8", "backslashreplace")[:_SHOWN])
    text = payloads.text(message)
    return text if len(text) <= _SHOWN_BY_FIELD else text[:_SHOWN_BY_FIELD] + " .."
