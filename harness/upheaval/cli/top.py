"""`upheaval top`: the members of a cluster as a table that is drawn anew each second, with lags, rates and faults.

On a terminal the table stays in place. Elsewhere each look is a table of its own, below the time.
"""

import json
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Final, TextIO

from upheaval.cli.cluster_commands import TopOptions
from upheaval.cli.tables import number, table
from upheaval.records import RunFolder
from upheaval.runtimes.look import Look, MemberRow, rows_of
from upheaval.runtimes.opening import open_cluster
from upheaval_chaos.record import FaultRecord, shown

_HOME: Final = "\x1b[H"
_REST_OF_LINE: Final = "\x1b[K"
_REST_OF_SCREEN: Final = "\x1b[J"
_CLEAR: Final = "\x1b[2J"
_FAULTS_SHOWN: Final = 3
HEADS: Final = ("member", "role", "term", "election", "appended", "lag", "committed", "bytes/s")


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
            look = Look.at(cluster)
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
