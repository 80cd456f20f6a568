"""The members' statuses at one moment, with lags and rates: the figures of `upheaval top` and its page."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from upheaval.runtimes.live import AnyCluster
from upheaval.system import MemberStatus


@dataclass(frozen=True, slots=True)
class Look:
    """The members' statuses at one moment. `ns` is monotonic time."""

    ns: int
    statuses: Sequence[MemberStatus]

    @classmethod
    def at(cls, cluster: AnyCluster) -> "Look":
        """The current statuses."""
        return cls(time.monotonic_ns(), cluster.status())


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member with figures that need other members or an earlier look. `lag` is in bytes, `rate` in committed bytes
    per second; None if unknown.
    """

    status: MemberStatus
    lag: int | None
    rate: float | None

    def to_fields(self) -> dict[str, Any]:
        """The fields that `upheaval top --json` prints."""
        return {**asdict(self.status), "lag": self.lag, "committed_bytes_per_s": self.rate}


def rows_of(look: Look, before: Look | None) -> list[MemberRow]:
    """One row per member: its lag behind the highest append position, and its rate since the look before."""
    furthest = max((status.append_position for status in look.statuses if status.alive), default=-1)
    earlier = {} if before is None else {status.member_id: status for status in before.statuses}
    seconds = 0.0 if before is None else (look.ns - before.ns) / 1e9
    rows = []
    for status in look.statuses:
        last, rate = earlier.get(status.member_id), None
        # A member that was down in between, or whose log was truncated, has no rate.
        is_going_on = last is not None and 0 <= last.commit_position <= status.commit_position
        if last is not None and is_going_on and seconds > 0:
            rate = (status.commit_position - last.commit_position) / seconds
        lag = furthest - status.append_position if status.alive and status.append_position >= 0 else None
        rows.append(MemberRow(status, lag, rate))
    return rows
