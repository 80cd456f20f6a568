"""The checkers, one line each. `judge` reads the table when it judges a run; docs, JSON and pages are made from it.

To add a promise: its name in `promises`, its checker in a file, and a line here.
"""

from typing import Final

from upheaval.checkers.absence import ABSENCE
from upheaval.checkers.backups import BACKUPS
from upheaval.checkers.binding import BINDING
from upheaval.checkers.bounds import BOUNDS
from upheaval.checkers.checker import Checker
from upheaval.checkers.client_times import CLIENT_TIMES
from upheaval.checkers.clients import CLIENTS, TERMS
from upheaval.checkers.convergence import CONVERGENCE, TRAFFIC
from upheaval.checkers.endings import ENDINGS_CHECKER
from upheaval.checkers.equal_logs import EQUAL_LOGS
from upheaval.checkers.failures import FAILURES
from upheaval.checkers.faults import COMMANDS, FAULTS
from upheaval.checkers.final_positions import FINAL_POSITIONS
from upheaval.checkers.history_by_log import ACKNOWLEDGED, APPLIED_ONCE, HISTORY, LINEARIZABLE
from upheaval.checkers.identities import IDENTITIES
from upheaval.checkers.joining import JOINING
from upheaval.checkers.leader_claims import LEADERS
from upheaval.checkers.leaderless import LEADERLESS
from upheaval.checkers.ledger import LEDGER_CHECKER
from upheaval.checkers.log_time import TIME
from upheaval.checkers.progress import PROGRESS
from upheaval.checkers.protocol import PROTOCOL
from upheaval.checkers.raised import RAISED
from upheaval.checkers.sealing import SEALING
from upheaval.checkers.sessions import SERVICE_MESSAGES, SESSIONS
from upheaval.checkers.snapshots import SNAPSHOTS
from upheaval.checkers.timers import TIMERS_CHECKER
from upheaval.checkers.unexplained import UNEXPLAINED

CHECKERS: Final[tuple[Checker, ...]] = (
    FAILURES,
    CONVERGENCE,
    TRAFFIC,
    FAULTS,
    COMMANDS,
    ENDINGS_CHECKER,
    LEADERS,
    PROTOCOL,
    FINAL_POSITIONS,
    EQUAL_LOGS,
    ACKNOWLEDGED,
    APPLIED_ONCE,
    LINEARIZABLE,
    HISTORY,
    SESSIONS,
    TERMS,
    CLIENTS,
    CLIENT_TIMES,
    SERVICE_MESSAGES,
    TIMERS_CHECKER,
    TIME,
    BOUNDS,
    LEADERLESS,
    JOINING,
    PROGRESS,
    LEDGER_CHECKER,
    SNAPSHOTS,
    RAISED,
    ABSENCE,
    UNEXPLAINED,
    BINDING,
    SEALING,
    BACKUPS,
    IDENTITIES,
)
