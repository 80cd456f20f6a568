"""Which message answered which call, when a service sends more than answers.

Without `accepts` a client takes the first message of its session as the answer. That is right only while the service
sends nothing else. After the first other message, each answer of the session may belong to an earlier call, and a
message may be taken for the answer to a lost call. This module knows operations and strays; it knows no files.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from upheaval.records import Operation, Outcome, Stray

ADVICE: Final = (
    "say which message answers: request(payload, accepts=...) or call(name, payload, accepts=...), with a function, "
    "CorrelationAt(offset) or TemplateId(id)"
)


@dataclass(frozen=True, slots=True)
class Attribution:
    """The calls, with only the answers that are known to be theirs. `doubt` says why others do not count; empty if all
    do.
    """

    calls: Sequence[Operation]
    doubt: str = ""


def attributed(calls: Sequence[Operation], strays: Iterable[Stray]) -> Attribution:
    """Leave out the answers that may be other messages of the service.

    A session that called without `accepts` and received more messages than it made calls shows that the service sends
    news. Then no answer without `accepts` counts in any session, because it may have been news.
    """
    doubtful = [call for call in calls if call.outcome is Outcome.OK and call.matched is None]
    asking = {call.session for call in doubtful}
    extra = _more_than_asked(calls, (stray for stray in strays if stray.text is not None and stray.session in asking))
    if not extra:
        return Attribution(calls)
    session, count = min(extra.items(), key=lambda pair: (-pair[1], pair[0]))
    doubt = (
        f"session {session} heard {count} messages more than it asked for, so which of them answer its calls is "
        f"unknown; {len(doubtful)} calls without `accepts` do not count as acknowledged: {ADVICE}"
    )
    known = [_unanswered(call) if call.outcome is Outcome.OK and call.matched is None else call for call in calls]
    return Attribution(known, doubt)


def _more_than_asked(calls: Iterable[Operation], strays: Iterable[Stray]) -> Mapping[int, int]:
    """By session, the number of messages that cannot be late answers to calls that the client gave up."""
    given_up: dict[int | None, list[int]] = {}
    for call in calls:
        if call.outcome is Outcome.UNKNOWN:
            given_up.setdefault(call.session, []).append(call.invoke_ns)
    extra: Counter[int] = Counter()
    for stray in sorted(strays, key=lambda stray: stray.received_ns):
        waiting = given_up.get(stray.session, [])
        late = next((invoke_ns for invoke_ns in waiting if invoke_ns <= stray.received_ns), None)
        if late is None:
            extra[stray.session] += 1
        else:
            waiting.remove(late)
    return extra


def _unanswered(call: Operation) -> Operation:
    return replace(call, outcome=Outcome.UNKNOWN, complete_ns=None, result=None)
