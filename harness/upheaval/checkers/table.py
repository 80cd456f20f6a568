"""The checkers, one line each. `judge` reads the table to judge a run; docs, JSON and pages are generated from it.

To add a promise: add its name to `promises`, its checker in a file, and a line here.
"""

from typing import Final

from upheaval.checkers.checker import Checker
from upheaval.checkers.evidence.absence import ABSENCE
from upheaval.checkers.evidence.admin_commands import COMMANDS
from upheaval.checkers.evidence.binding import BINDING
from upheaval.checkers.evidence.convergence import CONVERGENCE, TRAFFIC
from upheaval.checkers.evidence.equal_logs import EQUAL_LOGS
from upheaval.checkers.evidence.failures import FAILURES
from upheaval.checkers.evidence.fault_windows import FAULT_WINDOWS
from upheaval.checkers.evidence.faults import FAULTS
from upheaval.checkers.evidence.final_positions import FINAL_POSITIONS
from upheaval.checkers.evidence.sealing import SEALING
from upheaval.checkers.history.answer_order import ANSWER_ORDER
from upheaval.checkers.history.clients import CLIENTS, TERMS
from upheaval.checkers.history.history_by_log import ACKNOWLEDGED, APPLIED_ONCE, HISTORY, LINEARIZABLE
from upheaval.checkers.history.stray_answers import STRAY_ANSWERS
from upheaval.checkers.liveness.bounds import BOUNDS
from upheaval.checkers.liveness.client_times import CLIENT_TIMES
from upheaval.checkers.liveness.joining import JOINING
from upheaval.checkers.liveness.leaderless import LEADERLESS
from upheaval.checkers.liveness.log_time import TIME
from upheaval.checkers.liveness.progress import PROGRESS
from upheaval.checkers.liveness.session_failovers import SESSION_FAILOVERS
from upheaval.checkers.liveness.unexplained import UNEXPLAINED
from upheaval.checkers.protocol.answers import ANSWERS
from upheaval.checkers.protocol.endings import ENDINGS_CHECKER
from upheaval.checkers.protocol.expected import EXPECTED
from upheaval.checkers.protocol.identities import IDENTITIES
from upheaval.checkers.protocol.leader_claims import LEADERS
from upheaval.checkers.protocol.log_entries import LOG_ENTRIES
from upheaval.checkers.protocol.protocol import PROTOCOL
from upheaval.checkers.services.ledger import LEDGER_CHECKER
from upheaval.checkers.services.raised import RAISED
from upheaval.checkers.services.sessions import SERVICE_MESSAGES, SESSIONS
from upheaval.checkers.services.timers import TIMERS_CHECKER
from upheaval.checkers.states.backups import BACKUPS
from upheaval.checkers.states.snapshots import SNAPSHOTS
from upheaval.checkers.states.standby_notices import STANDBY_NOTICES
from upheaval.checkers.states.taken_snapshots import TAKEN_SNAPSHOTS

CHECKERS: Final[tuple[Checker, ...]] = (
    FAILURES,
    EXPECTED,
    CONVERGENCE,
    TRAFFIC,
    FAULTS,
    FAULT_WINDOWS,
    COMMANDS,
    ENDINGS_CHECKER,
    LEADERS,
    PROTOCOL,
    FINAL_POSITIONS,
    EQUAL_LOGS,
    ACKNOWLEDGED,
    ANSWERS,
    APPLIED_ONCE,
    LINEARIZABLE,
    HISTORY,
    SESSIONS,
    TERMS,
    LOG_ENTRIES,
    CLIENTS,
    ANSWER_ORDER,
    STRAY_ANSWERS,
    CLIENT_TIMES,
    SESSION_FAILOVERS,
    SERVICE_MESSAGES,
    TIMERS_CHECKER,
    TIME,
    BOUNDS,
    LEADERLESS,
    JOINING,
    PROGRESS,
    LEDGER_CHECKER,
    SNAPSHOTS,
    TAKEN_SNAPSHOTS,
    STANDBY_NOTICES,
    RAISED,
    ABSENCE,
    UNEXPLAINED,
    BINDING,
    SEALING,
    BACKUPS,
    IDENTITIES,
)
