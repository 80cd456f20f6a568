"""Runs that a broken cluster could have left: the folder of a good run, damaged, and what a verdict must say of it.

Each module has those of one part of the verdict and imports nothing of the check that finds them.
"""

from support.bad_runs.absent import ABSENT, RAISED, UNEXPLAINED
from support.bad_runs.admin import ADMIN
from support.bad_runs.answers import ANSWERS
from support.bad_runs.backed_up import BACKED_UP
from support.bad_runs.bad_run import BadRun, copy_of_good_run
from support.bad_runs.binding import BINDING
from support.bad_runs.calls import CALLS
from support.bad_runs.client_times import CLIENT_TIMES
from support.bad_runs.clients import CLIENTS
from support.bad_runs.committed import COMMITTED
from support.bad_runs.converged import CONVERGED
from support.bad_runs.joining import JOINING
from support.bad_runs.log_entries import LOG_ENTRIES
from support.bad_runs.named import NAMED
from support.bad_runs.positions import POSITIONS
from support.bad_runs.protocol import PROTOCOL
from support.bad_runs.sealed import SEALED
from support.bad_runs.seen import SEEN
from support.bad_runs.sessions import SESSIONS
from support.bad_runs.snapshots import SNAPSHOTS
from support.bad_runs.snapshots_taken import SNAPSHOTS_TAKEN
from support.bad_runs.timely import TIMELY
from support.bad_runs.windows import WINDOWS

BAD_RUNS: tuple[BadRun, ...] = (
    *POSITIONS,
    *BINDING,
    *NAMED,
    *SEALED,
    *PROTOCOL,
    *SEEN,
    *SNAPSHOTS,
    *TIMELY,
    *CLIENTS,
    *ANSWERS,
    *CLIENT_TIMES,
    *CALLS,
    *SESSIONS,
    *ABSENT,
    *UNEXPLAINED,
    *RAISED,
    *JOINING,
    *COMMITTED,
    *LOG_ENTRIES,
    *WINDOWS,
    *CONVERGED,
    *SNAPSHOTS_TAKEN,
    *BACKED_UP,
    *ADMIN,
)

__all__ = ["BAD_RUNS", "BadRun", "copy_of_good_run"]
