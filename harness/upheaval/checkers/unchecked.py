"""Which promises a run says nothing about, and why: what was not looked at is no evidence that all is well."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Unchecked, Verdict

_NO_WHOLE_LOG: Final = "no log is there from its beginning"

_OF_LOG: Final = {
    Promise.TIME_KEPT: "no trace tells when the leaders of the log's terms led",
    Promise.SESSIONS_KEPT: "no session was opened",
    Promise.ENTRIES_IN_TERM: "the log has no entry with a term",
    Promise.CLIENTS_IN_ORDER: "there are no operations but calls, whose entries are known by their payload only",
    Promise.SERVICE_MESSAGES_ONCE: "no service put a message into the log",
    Promise.TIMERS_KEPT: "nothing was asked of the service timers",
    Promise.MONEY_CONSERVED: "nothing was asked of the service ledger",
    Promise.STATES_AGREE: "no snapshot was taken, so no state was compared",
    Promise.SNAPSHOT_IS_REPLAY: "no snapshot was taken",
}
"""What is judged of a log that is there from its beginning, and why it may have nothing to judge."""

_OF_RUN: Final = {
    Promise.ADMIN_COMMANDS_PROVED: "no admin command was given",
    Promise.ENDS_AT_ONE_POSITION: "no admin command ended the cluster",
    Promise.LINEARIZABLE: "there are no operations but calls, and no model says what they should be answered",
    Promise.VOTES_KEPT: "members of this system trace no votes, and no forwarder saw any",
    Promise.COMMITS_KEPT: "members of this system trace no positions that they report, and no forwarder saw any",
    Promise.BOUNDS_KEPT: "of a single member, or without a trace of who led, there is nothing to measure",
    Promise.LEADER_FOUND: "of a single member, or without a trace of who led, there is nothing to measure",
    Promise.MEMBERS_JOIN: "of a single member, or without a trace of who led, there is nothing to measure",
    Promise.PROGRESS: "no session was answered while a member is known to have led",
    Promise.BACKED_UP: "there was no backup, and nothing was restored",
    Promise.ONLY_CREDENTIALS: "the cluster asks for no credentials",
    Promise.ONLY_AUTHORITY: "the cluster has no certificates",
}


def unchecked(findings: Sequence[Finding]) -> tuple[Unchecked, ...]:
    """Of the promises of `verify_run`, those without a finding."""
    judged = {finding.promise for finding in findings}
    has_whole_log = not judged.isdisjoint(_OF_LOG)
    whys = {promise: why if has_whole_log else _NO_WHOLE_LOG for promise, why in _OF_LOG.items()}
    return tuple(Unchecked(promise, why) for promise, why in {**whys, **_OF_RUN}.items() if promise not in judged)


def left_out(named: Collection[str], unchecked: Iterable[Unchecked]) -> Iterator[Finding]:
    """What somebody named as what a run is there to judge, and nobody can check, is unknown."""
    missing = (each for each in unchecked if each.promise in named)
    return (Finding(each.promise, Verdict.UNKNOWN, f"not checked: {each.why}") for each in missing)
