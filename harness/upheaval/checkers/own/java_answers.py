"""Compares the answers that clients recorded with those that copies of a Java service send.

An answer must be among the messages that a copy sends to the session after its request and before its next one. This
module knows values only: requests of a log and what copies sent. It runs nothing.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from upheaval.checkers.own.cuts import shown
from upheaval.checkers.own.effects import Entry
from upheaval.checkers.own.java_service import JavaEgress
from upheaval.records import AS_TEXT, Payloads, answer_bytes

UNSTEADY: Final = "; replays under other conditions send different messages, too: see `snapshot-is-replay`"


def compare_answers(egress: JavaEgress, answers: Mapping[int, str], payloads: Payloads = AS_TEXT) -> dict[str, Any]:
    """The first wrong answer, or the number of right ones, in the format of `own_model_process`.

    `answers` are by the position of the request. A service may answer only while it leads, so it is enough that one
    copy, the following or the leading one, sends all of them.
    """
    followed = _compare(egress.requests, egress.as_follower, answers, payloads)
    if "wrong" not in followed:
        return followed
    led = _compare(egress.requests, egress.as_leader, answers, payloads)
    if "wrong" not in led:
        return led
    later = max(followed, led, key=lambda compared: compared["wrong"]["position"])
    return later if egress.is_steady else {"wrong": {**later["wrong"], "cause": UNSTEADY}}


def _compare(
    requests: Sequence[Entry],
    sent: Mapping[int, Sequence[tuple[str, int]]],
    answers: Mapping[int, str],
    payloads: Payloads,
) -> dict[str, Any]:
    texts = _by_request(requests, sent)
    right = 0
    for request in requests:
        got, expected = answers.get(request.position), texts.get(request.position, ())
        if got is None:
            continue
        if got not in expected:
            wrong = {
                "position": request.position,
                "request": shown(request.payload, payloads),
                "expected": shown(answer_bytes(expected[0]), payloads) if expected else "nothing",
                "got": shown(answer_bytes(got), payloads),
            }
            return {"wrong": wrong}
        right += 1
    return {"judged": right}


def _by_request(
    requests: Sequence[Entry], sent: Mapping[int, Sequence[tuple[str, int]]]
) -> Mapping[int, Sequence[str]]:
    """The messages to each session by the position of its last request before them."""
    positions: dict[int, list[int]] = defaultdict(list)
    for request in requests:
        positions[request.subject].append(request.position)
    texts: dict[int, list[str]] = defaultdict(list)
    for session, messages in sent.items():
        for text, position in messages:
            index = bisect_right(positions[session], position)
            if index:
                texts[positions[session][index - 1]].append(text)
    return texts
