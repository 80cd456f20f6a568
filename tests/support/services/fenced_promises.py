"""Promises of the lock service with fencing tokens, and no model."""

import json

from upheaval.model import OwnRun, promise


@promise("a fencing token is never given twice")
def tokens_grow(run: OwnRun) -> None:
    latest = 0
    given: set[bytes] = set()
    for request in run.requests():
        token = json.loads(request.answer or b"{}").get("token")
        # What is asked again is answered as before.
        if token is not None and request.payload not in given:
            assert token > latest, f"token {token} after {latest}"
            latest = token
        given.add(request.payload)


@promise("a lock that is held has a holder")
def holders_are_known(run: OwnRun) -> bool:
    return all(all(service.holders.values()) for _, service in run.states())


def stays_small(run: OwnRun) -> None:
    """One that is not registered, and says nothing."""
    for _, state in run.states():
        assert state < 2
