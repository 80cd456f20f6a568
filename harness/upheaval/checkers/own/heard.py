"""Whether the messages that a session received, other than answers, are those that a replay of the log sends to it.

Each must be sent, once, and in that order. A client records answers and news separately, so their common order is
unknown. Therefore news are compared in order, and all messages only by the count of each text. If no answer is known by
its text, nothing counts as an answer. This module knows values only.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.records import answer_bytes

WINDOW: Final = 32 * 1024
"""Bytes that a client may leave unread before back pressure. A service may drop messages past it."""
_FRAME: Final = 64
"""The most bytes that a message has in addition to its payload."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that a replay sends to a session: the text as recorded, and the position of the entry that
    caused it.
    """

    text: str
    position: int
    leader: int
    """The leader at that position."""


@dataclass(frozen=True, slots=True)
class Unexplained:
    """The first message that a replay does not explain, in words, with the position and the leader of its entry."""

    detail: str
    position: int | None = None
    leader: int | None = None


def first_unexplained(
    sent: Sequence[Sent], news: Sequence[str], answers: Sequence[str], *, has_all: bool
) -> Unexplained | None:
    """How the messages of a session first differ from `sent`; None if all are explained.

    `has_all`: nothing disturbed the connection, so a session that received two messages received all in between.
    """
    heard = Counter(news) + Counter(answers)
    places = _places(sent)
    return (
        _strange(news, places)
        or _repeated(news, heard, places)
        or _out_of_order(sent, news, places)
        or (_missing(sent, news, heard) if has_all and _fits(sent) else None)
    )


def _places(sent: Sequence[Sent]) -> Mapping[str, Sequence[Sent]]:
    places: dict[str, list[Sent]] = {}
    for message in sent:
        places.setdefault(message.text, []).append(message)
    return places


def _strange(news: Sequence[str], places: Mapping[str, Sequence[Sent]]) -> Unexplained | None:
    strange = next((text for text in news if text not in places), None)
    if strange is None:
        return None
    return Unexplained(f"heard {strange!r}, which a replay of the log does not send to it")


def _repeated(news: Sequence[str], heard: Counter[str], places: Mapping[str, Sequence[Sent]]) -> Unexplained | None:
    text = next((text for text in news if heard[text] > len(places[text])), None)
    if text is None:
        return None
    last = places[text][-1]
    detail = f"heard {text!r} {heard[text]} times, and a replay sends it {len(places[text])} times"
    return Unexplained(f"{detail}, the last time at position {last.position}", last.position, last.leader)


def _out_of_order(
    sent: Sequence[Sent], news: Sequence[str], places: Mapping[str, Sequence[Sent]]
) -> Unexplained | None:
    before = -1
    for text, index in zip(news, _earliest(sent, news), strict=False):
        if index is None:
            last, other = places[text][-1], sent[before]
            detail = f"heard {text!r} after {other.text!r}, and a replay sends it at position {last.position}"
            return Unexplained(f"{detail}, before the other at position {other.position}", last.position, last.leader)
        before = index
    return None


def _earliest(sent: Sequence[Sent], news: Sequence[str]) -> Iterator[int | None]:
    """Yield the earliest possible index of each message. Ends with None at a message that cannot follow the
    one before.
    """
    index = -1
    for text in news:
        following = (number for number in range(index + 1, len(sent)) if sent[number].text == text)
        place = next(following, None)
        yield place
        if place is None:
            return
        index = place


def _missing(sent: Sequence[Sent], news: Sequence[str], heard: Counter[str]) -> Unexplained | None:
    """The first message not received, between the latest place of the first message and the earliest place of the last
    one.
    """
    if not news:
        return None
    *_, last = _earliest(sent, news)
    *_, first = _earliest(sent[::-1], news[::-1])
    assert first is not None
    assert last is not None
    between = sent[len(sent) - 1 - first : last + 1]
    counts = Counter(message.text for message in between)
    lost = next((message for message in between if counts[message.text] > heard[message.text]), None)
    if lost is None:
        return None
    detail = f"did not hear {lost.text!r}, which a replay sends at position {lost.position}"
    return Unexplained(f"{detail}, and heard what comes before and after it", lost.position, lost.leader)


def _fits(sent: Sequence[Sent]) -> bool:
    return sum(len(answer_bytes(message.text)) + _FRAME for message in sent) <= WINDOW
