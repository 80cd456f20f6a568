"""What a cluster does on every runtime, as bodies of tests: replication, catch-up, snapshots, a restart of the whole.

Each flow goes on from where the one before it has left the bank, heals what it breaks, and leaves money by which
the next one sees whether anything got lost. The runtimes are not known here.
"""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from upheaval import NotSent, OutcomeUnknown
from upheaval.testing.cluster import Cluster

SERVICE: Final = "bank.service:Bank"
SOURCE: Final = Path(__file__).resolve().parents[2] / "examples" / "bank"
_ATTEMPTS: Final = 10
_DEPOSITS: Final = 30
_CLIENT_TIMEOUT_S: Final = 5.0


class Books:
    """The bank of `examples/bank` on a cluster, and what its balances have to be."""

    def __init__(self, cluster: Cluster, *, first_id: int = 0) -> None:
        """`first_id` is above all that the bank was asked before: it does once what it is asked for twice."""
        self.cluster = cluster
        self.expected: dict[str, int] = {}
        self._client = cluster.client(_CLIENT_TIMEOUT_S)
        self._ids = itertools.count(first_id)

    def deposit(self, account: str) -> None:
        """So much that each deposit shows."""
        for amount in range(1, _DEPOSITS + 1):
            assert self._ask("deposit", to=account, amount=amount)["ok"]
        self.expected[account] = self.expected.get(account, 0) + _DEPOSITS * (_DEPOSITS + 1) // 2

    def balances(self) -> dict[str, int]:
        found: dict[str, int] = self._ask("balances")["balances"]
        return found

    def positions(self) -> list[int]:
        """Where the members stand when they have come to one position."""
        converge = self.cluster.converge()
        assert converge.reached, converge.why
        return [status.commit_position for status in self.cluster.status()]

    def _ask(self, do: str, **fields: object) -> Any:
        """The same id each time: the bank does once what it is asked for twice."""
        request = json.dumps({"id": f"flow-{next(self._ids)}", "do": do, **fields}).encode()
        for _ in range(_ATTEMPTS):
            try:
                return json.loads(self._client.request(request))
            except (NotSent, OutcomeUnknown):
                continue
        raise AssertionError(f"no answer in {_ATTEMPTS} attempts: {do}")


def replication(books: Books) -> None:
    """Every member gets what clients send to the leader."""
    before = books.positions()
    books.deposit("replicated")
    assert min(books.positions()) > max(before)


def catch_up(books: Books) -> None:
    """A member that was away gets what it missed, before it counts as one that follows."""
    cluster = books.cluster
    away = next(member_id for member_id in cluster.member_ids if member_id != cluster.wait_until_leader())
    cluster.kill(away)
    books.deposit("missed")
    assert not cluster.status()[away].alive
    cluster.heal()
    cluster.wait_until_caught_up(away)


def snapshot(books: Books) -> None:
    """Members that end without notice come back from the last snapshot and what the log says after it."""
    cluster = books.cluster
    books.deposit("in the snapshot")
    first = cluster.snapshot()
    books.deposit("beyond the snapshot")
    second = cluster.snapshot()
    assert 0 < first < second
    books.deposit("in the log only")
    cluster.kill("all")
    cluster.heal()


def restart(books: Books) -> None:
    """A cluster that is ordered to end does so by itself, with a snapshot, and goes on where it was in a later term."""
    cluster = books.cluster
    term = cluster.status()[cluster.wait_until_leader()].leadership_term_id
    books.deposit("before the end")
    cluster.shutdown()
    assert not any(status.alive for status in cluster.status())
    leader = cluster.start_all()
    assert cluster.status()[leader].leadership_term_id > term
    books.deposit("after the end")


FLOWS: Final[tuple[Callable[[Books], None], ...]] = (replication, catch_up, snapshot, restart)
