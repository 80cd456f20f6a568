"""How a cluster ends, on every runtime, as bodies of tests: by an order, with a dead follower, and without an order.

A shutdown of all members is one of the flows of `support.flows`. As there, each goes on from where the one before has
left the bank. The runtimes are not known here.
"""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from support.flows import SOURCE, Books
from support.valid import require_valid
from upheaval import Client, NotSent, OutcomeUnknown
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Report
from upheaval.records import MemberFolder, TraceEvent

SERVICE: Final = "quitting_bank:QuittingBank"
_QUITTING: Final = Path(__file__).resolve().parent / "services" / "quitting_bank.py"
_QUIT_TIMEOUT_S: Final = 1.0
_QUIT_ATTEMPTS: Final = 20
"""A busy machine may take longer than one time-out to let the client in; then nothing was sent."""


def source_in(folder: Path) -> Path:
    """A folder with the services of these flows."""
    shutil.copytree(SOURCE / "bank", folder / "bank")
    shutil.copy(_QUITTING, folder)
    return folder


def abort(books: Books) -> None:
    """All members end where the log ends, and replay it when they are started again."""
    cluster = books.cluster
    books.deposit("before the abort")
    cluster.abort()
    assert not any(status.alive for status in cluster.status())
    cluster.start_all()
    books.deposit("after the abort")


def without_a_follower(books: Books) -> None:
    """The others end by themselves, and the dead one catches up after the next start."""
    cluster = books.cluster
    dead = next(member_id for member_id in cluster.member_ids if member_id != cluster.wait_until_leader())
    books.deposit("known to all")
    cluster.kill(dead)
    books.deposit("known to two")
    cluster.shutdown()
    assert not any(status.alive for status in cluster.status())
    cluster.heal()
    assert cluster.status()[dead].alive
    books.deposit("known to all again")


def unexpected(books: Books) -> None:
    """A member whose service ends goes with it, not in order; another one leads, and the clients go on."""
    cluster = books.cluster
    books.deposit("before the service quits")
    leader = cluster.wait_until_leader()
    names = cluster.expect_end(leader)
    quit_once(cluster.client(_QUIT_TIMEOUT_S), json.dumps({"id": f"quit-{leader}", "do": "quit"}).encode())
    statuses = cluster.wait_until_ended(leader, names)
    assert 0 not in statuses, statuses
    books.deposit("while it is away")
    cluster.start(leader)
    cluster.wait_until_caught_up(leader)
    assert cluster.wait_until_leader() != leader


def quit_once(client: Client, request: bytes) -> None:
    """Ask until it was sent. There is no answer: the member that had it is gone."""
    for _ in range(_QUIT_ATTEMPTS):
        with suppress(NotSent):
            with suppress(OutcomeUnknown):
                client.request(request)
            return
    raise NotSent(f"not in {_QUIT_ATTEMPTS} attempts")


ENDINGS: Final[tuple[Callable[[Books], None], ...]] = (abort, without_a_follower, unexpected)


def require_judged(books: Books, report: Report) -> None:
    """The run is valid, its ends by order among what was looked at; the service that quit heard of its end once."""
    require_valid(report)
    ended = report.finding(Promise.ENDS_AT_ONE_POSITION).detail.split("; ")
    ordered = [control for control in books.cluster.run.read_controls() if control.what in ("shutdown", "abort")]
    assert ordered
    assert [len(each.partition(" at ")[0].split(",")) for each in ended] == [len(each.members) for each in ordered]
    failed = [told_of_failure(books.cluster.run.member(member_id)) for member_id in books.cluster.member_ids]
    (quitting,) = [life for life in failed if life]
    assert [event.event for event in quitting] == ["service-terminate", "process-end"]
    assert "the service was asked to quit" in str(quitting[-1].fields["reason"])


def told_of_failure(folder: MemberFolder) -> list[TraceEvent]:
    """What the member traced at the end of its life that ended with another status than 0."""
    life: list[TraceEvent] = []
    for event in folder.read_trace():
        if event.event == "process-start":
            life = []
        elif event.event in ("service-terminate", "process-end"):
            life.append(event)
        if event.event == "process-end" and event.fields.get("status") != 0:
            return life
    return []
