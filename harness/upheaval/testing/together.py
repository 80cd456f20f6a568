"""Requests of several clients in flight at the same time.

The runtime runs a round, in which each request is sent once. This module retries those that failed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from upheaval.accepts import Accepts
from upheaval.errors import UsageError
from upheaval.testing.calls import Client
from upheaval_node.client.driver import NotSent, OutcomeUnknown

Failure = NotSent | OutcomeUnknown


@dataclass(frozen=True, slots=True)
class Ask:
    """The request of one client, and the test for its answer."""

    client: Client
    payload: bytes
    accepts: Accepts | None = None


Round = Callable[[Sequence[Ask]], Sequence[bytes | Failure]]


def ask_together(asks: Sequence[Ask], make_round: Round, *, retries: int, retry_wait_s: float) -> list[bytes]:
    """The answers in the order of the requests.

    When all requests have ended, raises the first `NotSent` or `OutcomeUnknown` of the last try. Raises `UsageError`
    for two requests of one client.
    """
    if len({id(ask.client) for ask in asks}) < len(asks):
        raise UsageError("together: a client has one request under way at a time: use a client for each")
    results = list(make_round(asks))
    for _ in range(retries):
        failed = [place for place, result in enumerate(results) if not isinstance(result, bytes)]
        if not failed:
            break
        asks[failed[0]].client.wait(retry_wait_s)
        again = make_round([asks[place] for place in failed])
        for place, result in zip(failed, again, strict=True):
            results[place] = result
    return [_answer(result) for result in results]


def _answer(result: bytes | Failure) -> bytes:
    if isinstance(result, bytes):
        return result
    raise result
