"""`upheaval top`: the members of a cluster as a table that is drawn anew each second, with lags, rates and faults.

On a terminal the table stays in place. Elsewhere each look is a table of its own, below the time.
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, TextIO

from upheaval.cli.cluster_commands import TopOptions
from upheaval.cli.tables import number, table
from upheaval.records import RunFolder
from upheaval.runtimes.opening import open_cluster
from upheaval.system import MemberStatus
from upheaval_chaos.record import FaultRecord, shown

_HOME: Final = "\x1b[H"
_REST_OF_LINE: Final = "\x1b[K"
_REST_OF_SCREEN: Final = "\x1b[J"
_CLEAR: Final = "\x1b[2J"
_FAULTS_SHOWN: Final = 3
HEADS: Final = ("member", "role", "term", "election", "appended", "lag", "committed", "bytes/s")


@dataclass(frozen=True, slots=True)
class Look:
    """The members at one moment of the monotonic clock, in nanoseconds."""

    ns: int
    statuses: Sequence[MemberStatus]


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member as `top` shows it. `lag` is in bytes, `rate` in committed bytes a second; None where it is not known."""

    status: MemberStatus
    lag: int | None
    rate: float | None

    def to_fields(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {**asdict(self.status), "lag": self.lag, "committed_bytes_per_s": self.rate}


def rows_of(look: Look, before: Look | None) -> list[MemberRow]:
    """The lag is that behind the member that has appended most; the rate is the one since the look before."""
    furthest = max((status.append_position for status in look.statuses if status.alive), default=-1)
    earlier = {} if before is None else {status.member_id: status for status in before.statuses}
    seconds = 0.0 if before is None else (look.ns - before.ns) / 1e9
    rows = []
    for status in look.statuses:
        last, rate = earlier.get(status.member_id), None
        # A member that was down in between, or whose log was cut, has no rate.
        is_going_on = last is not None and 0 <= last.commit_position <= status.commit_position
        if last is not None and is_going_on and seconds > 0:
            rate = (status.commit_position - last.commit_position) / seconds
        lag = furthest - status.append_position if status.alive and status.append_position >= 0 else None
        rows.append(MemberRow(status, lag, rate))
    return rows


def screen_of(rows: Sequence[MemberRow], faults: Sequence[FaultRecord]) -> str:
    """The table of the members, and a line for each of the last faults."""
    cells = [list(HEADS), *(_cells(row) for row in rows)]
    lines = [table(cells)]
    for fault in faults[-_FAULTS_SHOWN:]:
        state = "on" if fault.heal_begin_ns is None else "healed"
        lines.append(f"{fault.what} {fault.where}, {state}: {shown(fault.inject_proof, fault.heal_proof)}")
    return "\n".join(lines)


def top(options: TopOptions) -> int:
    """Until it is interrupted, or for as many looks as asked for. Raises `UsageError` for a folder of no cluster."""
    run = RunFolder(options.dir)
    before: Look | None = None
    with open_cluster(options.dir) as cluster:
        if sys.stdout.isatty() and not options.json:
            sys.stdout.write(_CLEAR)
        looks = 0
        while True:
            look = Look(time.monotonic_ns(), cluster.status())
            rows, faults = rows_of(look, before), list(run.read_faults())
            if options.json:
                print(json.dumps({"members": [row.to_fields() for row in rows]}), flush=True)
            else:
                show(screen_of(rows, faults), sys.stdout)
            before, looks = look, looks + 1
            if looks == options.count:
                return 0
            time.sleep(options.every)


def show(text: str, stream: TextIO) -> None:
    """In place on a terminal, and below the time elsewhere."""
    clock = f"{datetime.now():%H:%M:%S}"  # noqa: DTZ005 - the reader's own time
    lines = [clock, *text.splitlines()]
    if stream.isatty():
        stream.write(_HOME + "".join(f"{line}{_REST_OF_LINE}\n" for line in lines) + _REST_OF_SCREEN)
    else:
        stream.write("\n".join(lines) + "\n")
    stream.flush()


def _cells(row: MemberRow) -> list[str]:
    status = row.status
    if not status.alive:
        return [str(status.member_id), "down", *["-"] * (len(HEADS) - 2)]
    return [
        str(status.member_id),
        (status.role or "-").lower(),
        number(status.leadership_term_id),
        status.election_state or "-",
        number(status.append_position),
        "-" if row.lag is None else str(row.lag),
        number(status.commit_position),
        "-" if row.rate is None else f"{row.rate:,.0f}",
    ]
