"""Waiting for a leader, for a member to catch up, and for all members to reach the same position.

All waits poll `status` only. This module knows no runtime.
"""

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Final, TypeVar

from upheaval.checkers.evidence.stalls import Stall, stalls_since
from upheaval.errors import HarnessError, UnknownOutcome
from upheaval.records import Converge, FinalPosition, RunFolder
from upheaval.system import ELECTION_CLOSED, LEADER, MemberStatus, is_caught_up, serving_leader, shown
from upheaval.waits import POLL_INTERVAL_S, wait_until

START_TIMEOUT_S: Final = 30.0
_WAITS_WITH_PROGRESS: Final = 4
T = TypeVar("T")


class Conditions(ABC):
    """The conditions that a caller can await in a cluster, by polling its members."""

    poll_interval_s: ClassVar[float] = POLL_INTERVAL_S
    """The time between two polls of the members, in seconds."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run

    @abstractmethod
    def status(self) -> list[MemberStatus]:
        """What each member reports about itself, and who leads."""

    @abstractmethod
    def raise_if_ended(self, member_id: int | None = None) -> None:
        """Raises `EnvironmentFault` when a member (or the given member) ended by its own fault: no wait for it can
        succeed.
        """

    def shown(self, seen: Sequence[MemberStatus], begin_ns: int) -> str:
        """The last statuses of a wait that began at `begin_ns`, and the stalls that members recorded during it."""
        stalls: list[Stall] = []
        with contextlib.suppress(HarnessError):
            stalls = self._stalls_since(begin_ns)
        return shown(seen) + ("; meanwhile " + ", ".join(map(str, stalls)) if stalls else "")

    def _stalls_since(self, begin_ns: int) -> list[Stall]:
        """The stalls that members recorded, as far as they are readable while members run. Raises `HarnessError`."""
        return stalls_since(self.run, self.run.read_manifest().members, begin_ns)

    def leader(self) -> int | None:
        """The serving leader of the highest term, None without one."""
        return serving_leader(self.status())

    def has_caught_up(self, member_id: int) -> bool:
        """Whether the member leads, or follows the serving leader, and its election is over."""
        return is_caught_up(self.status(), member_id)

    def wait_until_leader(self, timeout_s: float = START_TIMEOUT_S, *, other_than: int | None = None) -> int:
        """Wait for a serving leader, other than `other_than` if that is given."""

        seen: Sequence[MemberStatus] = ()
        begin_ns = time.monotonic_ns()

        def new_leader() -> tuple[int] | None:
            nonlocal seen
            self.raise_if_ended()
            seen = self.status()
            leader = serving_leader(seen)
            return None if leader is None or leader == other_than else (leader,)

        (leader,) = wait_until(
            new_leader,
            timeout_s=timeout_s,
            interval_s=self.poll_interval_s,
            describe=lambda: f"no leader: {self.shown(seen, begin_ns)}",
        )
        return leader

    def progress(self) -> Sequence[object]:
        """A value that changes as long as members that were just started make progress."""
        return self.status()

    def raise_if_silent(self) -> None:
        """Raises `EnvironmentFault` when a member runs but has shown nothing: it was not started correctly."""

    def wait_until_first_leader(self, timeout_s: float = START_TIMEOUT_S) -> int:
        """Wait for the first leader after a start. Every time-out with progress is extended, up to four times
        `timeout_s` in total.
        """
        return self._while_progress(lambda: self.wait_until_leader(timeout_s), self.progress)

    def _while_progress(self, wait: Callable[[], T], progress: Callable[[], object]) -> T:
        for _ in range(_WAITS_WITH_PROGRESS - 1):
            before = progress()
            try:
                return wait()
            except UnknownOutcome:
                self.raise_if_silent()
                if progress() == before:
                    raise
        return wait()

    def wait_until_caught_up(self, member_id: int, timeout_s: float = START_TIMEOUT_S) -> MemberStatus:
        """Wait until a member leads, or follows the serving leader, and its election is over. A time-out is extended as
        that of `wait_until_first_leader` while this member makes progress.
        """
        return self._while_progress(
            lambda: self._wait_until_caught_up(member_id, timeout_s), lambda: self.progress()[member_id]
        )

    def _wait_until_caught_up(self, member_id: int, timeout_s: float) -> MemberStatus:
        seen: Sequence[MemberStatus] = ()
        begin_ns = time.monotonic_ns()

        def caught_up() -> MemberStatus | None:
            nonlocal seen
            self.raise_if_ended()
            seen = self.status()
            return seen[member_id] if is_caught_up(seen, member_id) else None

        return wait_until(
            caught_up,
            timeout_s=timeout_s,
            interval_s=self.poll_interval_s,
            describe=lambda: f"member {member_id} does not catch up: {self.shown(seen, begin_ns)}",
        )

    def converge(self, timeout_s: float = START_TIMEOUT_S) -> Converge:
        """Wait until all members have the same append and commit position, and write that to the manifest.

        The load must have ended. After a time-out, the manifest has the last positions, marked as not reached.
        """
        seen: Sequence[MemberStatus] = ()
        begin_ns = time.monotonic_ns()
        completed_ns = 0

        def stand_still() -> bool:
            # Members are read one after the other, so a second look has to agree with the first: positions that were
            # equal only by chance have moved by then, as has a log that just received the end of a session. Nothing is
            # committed past the final positions before the second look begins.
            nonlocal seen, completed_ns
            self.raise_if_ended()
            first = seen = self.status()
            completed_ns = time.monotonic_ns()
            if not _stand_at_one_position(first):
                return False
            seen = self.status()
            return _stand_at_one_position(seen) and _end(first) == _end(seen)

        why = ""
        try:
            wait_until(
                stand_still,
                timeout_s=timeout_s,
                interval_s=self.poll_interval_s,
                describe=lambda: self.shown(seen, begin_ns),
            )
        except UnknownOutcome as error:
            why = str(error)
        finals = tuple(
            FinalPosition(s.member_id, s.append_position, s.commit_position, s.leadership_term_id) for s in seen
        )
        converge = Converge(not why, completed_ns, finals, why)
        self.run.change_manifest(lambda manifest: replace(manifest, converge=converge))
        return converge


def _end(statuses: Sequence[MemberStatus]) -> int:
    return max(status.append_position for status in statuses)


def _stand_at_one_position(statuses: Sequence[MemberStatus]) -> bool:
    positions = {status.append_position for status in statuses} | {status.commit_position for status in statuses}
    return (
        all(status.alive and status.election_state == ELECTION_CLOSED for status in statuses)
        and sum(status.role == LEADER for status in statuses) == 1
        and len({status.leadership_term_id for status in statuses}) == 1
        and len(positions) == 1
        and min(positions) > 0
    )
