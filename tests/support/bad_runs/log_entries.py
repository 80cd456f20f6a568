"""Bad runs in whose logs there is what nothing asked for: the same entry of each member's log is another one.

In `snapshot-and-restart` the cluster takes snapshots, is suspended and resumed, ends, and starts again.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from support.bad_runs.bad_run import BadRun
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval_node.protocol import cluster_messages as cm

_WORKBENCH, _COMMANDS, _LEDGER, _TIMERS = (
    "leader-killed",
    "snapshot-and-restart",
    "money-is-conserved",
    "timers-over-restarts",
)
_FRAME_HEADER = 32
_SESSION = 16
"""Where a message of a session has its session (Aeron Cluster: SessionMessageHeader)."""
_OPERATION = 40
"""Where a message for a shipped service has the code of its operation, after its id."""
_ACTION = 32
"""Where a ClusterActionRequest has its action."""
_TEMPLATE = 2
_MESSAGE, _CLOSE, _REQUEST = 1, 22, 23
"""Template ids."""
_FIRST_OF_SERVICE = 1 - (1 << 63)


def _messages(content: bytearray) -> Iterator[int]:
    """Where the message of each frame begins."""
    begin = 0
    while length := int.from_bytes(content[begin : begin + 4], "little"):
        yield begin + _FRAME_HEADER
        begin += length + 31 & -32


def _change(run: Path, is_wanted: Callable[[bytes], bool], number: int, offset: int, value: bytes) -> None:
    """Put bytes into the message of that number of those that are wanted, in the log of each member."""
    for member in range(3):
        path = run / f"member-{member}" / "archive" / "0-0.rec"
        content = bytearray(path.read_bytes())
        wanted = [at for at in _messages(content) if is_wanted(bytes(content[at : at + 40]))]
        at = wanted[number] + offset
        content[at : at + len(value)] = value
        path.write_bytes(content)


def _template(wanted: int) -> Callable[[bytes], bool]:
    return lambda message: int.from_bytes(message[2:4], "little") == wanted


def _is_of_client(message: bytes) -> bool:
    return _template(_MESSAGE)(message) and int.from_bytes(message[16:24], "little", signed=True) >= 0


def _is_of_service(message: bytes) -> bool:
    return _template(_MESSAGE)(message) and int.from_bytes(message[16:24], "little", signed=True) < 0


def _asks(action: cm.ClusterAction) -> Callable[[bytes], bool]:
    return lambda message: (
        _template(_REQUEST)(message) and int.from_bytes(message[_ACTION : _ACTION + 4], "little") == action
    )


# --- what a suspended cluster appends ---


def the_cluster_is_suspended_again_instead_of_resumed(run: Path) -> None:
    _change(run, _asks(cm.ClusterAction.RESUME), 0, _ACTION, bytes([cm.ClusterAction.SUSPEND]))


def a_snapshot_suspends_the_cluster(run: Path) -> None:
    _change(run, _asks(cm.ClusterAction.SNAPSHOT), 0, _ACTION, bytes([cm.ClusterAction.SUSPEND]))


def a_cluster_ends_suspended_and_closes_sessions_when_it_is_back(run: Path) -> None:
    _change(run, _asks(cm.ClusterAction.SNAPSHOT), 1, _ACTION, bytes([cm.ClusterAction.SUSPEND]))


def timers_fire_in_a_suspended_cluster(run: Path) -> None:
    _change(run, _asks(cm.ClusterAction.SNAPSHOT), 0, _ACTION, bytes([cm.ClusterAction.SUSPEND]))


# --- what no service asked for ---


def a_timer_fires_of_a_service_that_has_none(run: Path) -> None:
    _change(run, _is_of_client, 20, 0, cm.SCHEMA.encode(cm.TimerEvent(0, 77, 1_700_000_002_000)))


def a_timer_fires_of_a_ledger(run: Path) -> None:
    _change(run, _is_of_client, 10, 0, cm.SCHEMA.encode(cm.TimerEvent(0, 5, 1_700_000_002_000)))


def a_timer_fires_that_nobody_scheduled(run: Path) -> None:
    _change(run, _template(20), 3, 16, (10**9).to_bytes(8, "little"))


def a_service_that_offers_nothing_offered_a_message(run: Path) -> None:
    _change(run, _is_of_client, 20, _SESSION, _FIRST_OF_SERVICE.to_bytes(8, "little", signed=True))


def a_service_offered_a_message_that_the_members_do_not_have(run: Path) -> None:
    number = _FIRST_OF_SERVICE + (5 << 56)
    _change(run, _is_of_client, 20, _SESSION, number.to_bytes(8, "little", signed=True))


def a_ledger_offered_what_is_no_second_step(run: Path) -> None:
    _change(run, _is_of_service, 4, _OPERATION, b"\xff")


# --- entries that no log has ---


def a_message_is_of_a_template_that_nobody_knows(run: Path) -> None:
    _change(run, _is_of_client, 20, _TEMPLATE, (999).to_bytes(2, "little"))


def the_end_of_a_session_is_of_a_template_that_nobody_knows(run: Path) -> None:
    _change(run, _template(_CLOSE), 0, _TEMPLATE, (998).to_bytes(2, "little"))


def a_commit_position_is_in_the_log(run: Path) -> None:
    _change(run, _is_of_client, 20, 0, cm.SCHEMA.encode(cm.CommitPosition(0, 64, 0)))


def a_vote_is_in_the_log(run: Path) -> None:
    _change(run, _is_of_client, 30, 0, cm.SCHEMA.encode(cm.Vote(1, 0, 64, 1, 0, 1)))


def a_message_says_that_it_is_a_vote_and_is_too_short(run: Path) -> None:
    _change(run, _is_of_client, 30, _TEMPLATE, (52).to_bytes(2, "little"))


def a_client_asked_for_what_the_service_does_not_have(run: Path) -> None:
    _change(run, _is_of_client, 30, _OPERATION, b"\xff")


def _suspended(damage: Callable[[Path], None], *says: str, scenario: str = _COMMANDS) -> BadRun:
    says = (*says, "where the log has the cluster suspended from")
    return BadRun(scenario, damage, Promise.SUSPENDED_TAKES_NOTHING, says)


def _strange(damage: Callable[[Path], None], *says: str, verdict: Verdict = Verdict.INVALID) -> BadRun:
    return BadRun(_COMMANDS, damage, Promise.ENTRIES_KNOWN, ("the entry at position", *says), verdict)


def _unreadable(scenario: str) -> BadRun:
    damage, says = a_client_asked_for_what_the_service_does_not_have, ("message of session", "no client sends")
    return BadRun(scenario, damage, Promise.ENTRIES_KNOWN, says, Verdict.UNKNOWN)


def _bad(damage: Callable[[Path], None], promise: Promise, *says: str, scenario: str = _WORKBENCH) -> BadRun:
    return BadRun(scenario, damage, promise, says)


_ONCE = Promise.SERVICE_MESSAGES_ONCE

LOG_ENTRIES = (
    *(_unreadable(scenario) for scenario in (_WORKBENCH, _LEDGER, _TIMERS)),
    _suspended(the_cluster_is_suspended_again_instead_of_resumed, "a client's message at position"),
    _suspended(a_snapshot_suspends_the_cluster, "a client's message at position"),
    _suspended(a_cluster_ends_suspended_and_closes_sessions_when_it_is_back, "a session closes at position"),
    _suspended(timers_fire_in_a_suspended_cluster, "at position", scenario=_TIMERS),
    _bad(
        a_timer_fires_of_a_service_that_has_none, Promise.TIMERS_KEPT, "timer 77 fired", "no service had scheduled it"
    ),
    _bad(a_timer_fires_of_a_ledger, Promise.TIMERS_KEPT, "timer 5 fired at position", scenario=_LEDGER),
    _bad(a_timer_fires_that_nobody_scheduled, Promise.TIMERS_KEPT, "timer 1000000000 fired", scenario=_TIMERS),
    _bad(a_service_that_offers_nothing_offered_a_message, _ONCE, "message 1 of service 0", "workbench offers none"),
    _bad(a_service_offered_a_message_that_the_members_do_not_have, _ONCE, "of service 5", "each member runs 1"),
    _bad(a_ledger_offered_what_is_no_second_step, _ONCE, "message 5 of service 0", "second step", scenario=_LEDGER),
    _strange(a_message_is_of_a_template_that_nobody_knows, "is of unknown template 999", verdict=Verdict.UNKNOWN),
    _strange(
        the_end_of_a_session_is_of_a_template_that_nobody_knows, "is of unknown template 998", verdict=Verdict.UNKNOWN
    ),
    _strange(a_commit_position_is_in_the_log, "is a CommitPosition, which no log has"),
    _strange(a_vote_is_in_the_log, "is a Vote, which no log has"),
    _strange(a_message_says_that_it_is_a_vote_and_is_too_short, "cannot be read", "Vote", verdict=Verdict.UNKNOWN),
)
