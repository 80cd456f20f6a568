"""Known bugs of released versions of Aeron Cluster: what each one is, how to provoke it, and which promise finds it.

A try is one run of the bug's scenario on one version. This module counts the results of tries; it runs nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from upheaval.checkers.known_bugs import cause_named
from upheaval.checkers.promises import AnyPromise, Promise
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.errors import UsageError
from upheaval.scenario import Scenario, load_scenario
from upheaval.system import AERON


@dataclass(frozen=True, slots=True)
class KnownBug:
    """An issue of Aeron, or the commit that mended a bug without one. `bad` is a version with the bug, `good` are
    versions without it.
    """

    issue: int | str
    what: str
    fault: str
    """The fault of the scenario, in words."""
    promise: Promise
    """The promise that the bug breaks."""
    bad: str
    good: tuple[str, ...]

    @property
    def label(self) -> str:
        """The issue or commit as text for readers."""
        return f"#{self.issue}" if isinstance(self.issue, int) else f"commit {self.issue}"

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions to try, unless others are asked for."""
        return (self.bad, *self.good)

    def has_it(self, version: str) -> bool | None:
        """Whether that version has the bug; None for one of which only its runs say so."""
        return version == self.bad if version in self.versions else None

    @property
    def scenario_name(self) -> str:
        """The name that `upheaval run` takes."""
        return f"{AERON}-{self.issue}"

    def is_found_by(self, finding: Finding) -> bool:
        """Whether a finding has the bug's signature on its promise, or is a consequence of one that has."""
        is_marked = finding.known_issue == self.issue or finding.known_cause == cause_named(self.issue)
        return finding.promise == self.promise and is_marked

    def scenario(self, version: str) -> Scenario:
        """The scenario's steps, on members of that version."""
        return load_scenario(self.scenario_name).on_system(f"{AERON}:{version}")


_Z: Final = 1.959964
"""Of the normal distribution, for an interval of 95 %."""
KNOWN_BUGS: Final = (
    KnownBug(
        1397,
        "a client does not learn that a member which started again has closed its session",
        "the only member is killed and started again under load",
        Promise.PROGRESS,
        "1.47.4",
        ("1.49.3",),
    ),
    KnownBug(
        1601,
        "a leader sends no more than the slowest service of a follower reads, so that one of them stops the cluster",
        "the service of one follower, a process of its own, is stopped for 8 s under load",
        Promise.PROGRESS,
        "1.44.1",
        ("1.46.9",),
    ),
    KnownBug(
        1671,
        "a leader does not send the version of the application, so that followers of a version from 1.0.0 on end",
        "members of application version 1.0.0 are started",
        Promise.NO_UNEXPLAINED_END,
        "1.46.9",
        ("1.47.3",),
    ),
    KnownBug(
        1690,
        "a client never notices that all members have been stopped, and takes its session for open when they are back",
        "the cluster is shut down and started again under load",
        Promise.PROGRESS,
        "1.46.9",
        ("1.49.3",),
    ),
    KnownBug(
        1703,
        "messages of all services of a member are numbered as those of one, so they are skipped or come twice",
        "a leader is killed while two services of each member put messages into the log",
        Promise.SNAPSHOT_IS_REPLAY,
        "1.46.9",
        ("1.47.3",),
    ),
    KnownBug(
        1739,
        "snapshots of the consensus module differ between members in their next session id",
        "more clients connect than the cluster takes, while snapshots are taken",
        Promise.STATES_AGREE,
        "1.47.4",
        ("1.49.3", "1.51.0"),
    ),
    KnownBug(
        1788,
        "a leader whose image of a client went and came back goes on after the gap",
        "what clients send is lost for 13 s: longer than images live, shorter than sessions",
        Promise.CLIENTS_IN_ORDER,
        "1.47.4",
        ("1.49.3",),
    ),
    KnownBug(
        1797,
        "a leader that has ordered no end raises an exception when a member acknowledges the end that the last one "
        "ordered",
        "a leader orders the end and is killed; one follower does not hear of it, the other is behind in the log",
        Promise.NO_UNEXPLAINED_END,
        "1.47.4",
        ("1.49.3",),
    ),
    KnownBug(
        1898,
        "a follower that joins again applies more of its log than is committed",
        "three of five members get no log, the fast follower hears no heartbeat for a while, and the three elect "
        "another",
        Promise.COMMITS_KEPT,
        "1.49.3",
        ("1.51.0",),
    ),
    KnownBug(
        1917,
        "a command that a leader appended and its cluster never committed stays in force in its consensus module",
        "a leader that is cut off is asked for a snapshot, and comes back to the next one",
        Promise.MEMBERS_JOIN,
        "1.49.3",
        ("1.51.0",),
    ),
    KnownBug(
        1918,
        "the next session id counts sessions that a leader opened and its cluster never committed",
        "a leader that is cut off takes new sessions, and comes back to a snapshot",
        Promise.STATES_AGREE,
        "1.49.3",
        ("1.51.0",),
    ),
    KnownBug(
        2147,
        "a member that is in an earlier term counts for the quorum, so acknowledged operations are lost",
        "a leader is cut off with its clients under load; the next one loses its other follower, hears the first one "
        "again, and is killed",
        Promise.ACKNOWLEDGED_NOT_LOST,
        "1.51.0",
        ("1.49.3",),
    ),
    KnownBug(
        2148,
        "a member that is killed within its start is refused every later one, by a mark file that counts as in use",
        "a member is killed again and again while it starts, each time a little later",
        Promise.NO_UNEXPLAINED_END,
        "1.51.0",
        ("1.47.4",),
    ),
    KnownBug(
        "a5d5072d5f",
        "a member waits within an election for a service that is gone, without end, and does not end itself",
        "the service of a follower, a process of its own, is killed, and then the leader; each is started again",
        Promise.MEMBERS_JOIN,
        "1.49.3",
        ("1.51.0",),
    ),
    KnownBug(
        "a9d7215d74",
        "the commit position of a leader goes back with that of its followers, and its next election starts there, "
        "below what its service has applied",
        "one follower is behind and the other has lost its files and copies them, when their leader hears neither for "
        "a while",
        Promise.MEMBERS_JOIN,
        "1.49.3",
        ("1.51.0",),
    ),
)
"""Ordered by their issue number in `aeron-io/aeron`; then those that a commit mended without one."""


def known_bugs(issues: Sequence[str]) -> tuple[KnownBug, ...]:
    """The bugs of these issues, or all. Raises `UsageError` for an unknown issue."""
    by_issue = {str(bug.issue): bug for bug in KNOWN_BUGS}
    unknown = [issue for issue in issues if issue not in by_issue]
    if unknown:
        raise UsageError(f"unknown issue {unknown[0]}: use one of {', '.join(by_issue)}")
    return tuple(by_issue[issue] for issue in dict.fromkeys(issues)) or KNOWN_BUGS


@dataclass(frozen=True, slots=True)
class Tries:
    """The results of all tries of one bug on one version: how often its promise was broken by it, and how often all
    promises held. `others` are promises that were broken besides or otherwise, `strange` those of them that no known
    bug breaks; `unclear` are the findings of all tries that were neither valid nor broken.
    """

    bug: KnownBug
    version: str
    tries: int
    caught: int
    valid: int
    others: tuple[AnyPromise, ...] = ()
    strange: tuple[AnyPromise, ...] = ()
    unclear: tuple[str, ...] = ()

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the rate at which a run finds the bug, after Wilson; `tries` is above 0."""
        return rate_interval(self.caught, self.tries)

    @property
    def verdict(self) -> Verdict:
        """Valid when the tries match the table: caught in the bad version beside nothing unknown, all valid in a good
        one. Tries of another version match if they show either.
        """
        has_it = self.bug.has_it(self.version)
        if has_it or (has_it is None and self.caught):
            return Verdict.VALID if self.caught and not self.strange else Verdict.UNKNOWN
        if self.caught or self.others:
            return Verdict.INVALID
        return Verdict.VALID if self.valid == self.tries else Verdict.UNKNOWN


def rate_interval(hits: int, tries: int) -> tuple[float, float]:
    """The 95 % interval of a rate, after Wilson; `tries` is above 0."""
    rate, z2 = hits / tries, _Z * _Z
    middle = rate + z2 / (2 * tries)
    half = _Z * sqrt(rate * (1 - rate) / tries + z2 / (4 * tries**2))
    whole = 1 + z2 / tries
    return max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole)


def tries_of(bug: KnownBug, version: str, reports: Sequence[Report], failures: Sequence[str] = ()) -> Tries:
    """Count the reports of the runs, and the reasons why other runs left none."""
    broken = [[finding for finding in one.findings if finding.verdict is Verdict.INVALID] for one in reports]
    caught = [[finding for finding in findings if bug.is_found_by(finding)] for findings in broken]
    every = [finding for findings in broken for finding in findings]
    others = dict.fromkeys(finding.promise for finding in every if not bug.is_found_by(finding))
    strange = dict.fromkeys(finding.promise for finding in every if not finding.known)
    unclear = {
        f"{finding.promise.sentence}: {finding.detail}": None
        for one in reports
        for finding in one.findings
        if finding.verdict not in (Verdict.VALID, Verdict.INVALID)
    }
    return Tries(
        bug,
        version,
        len(reports) + len(failures),
        sum(map(bool, caught)),
        sum(one.verdict is Verdict.VALID for one in reports),
        tuple(others),
        tuple(strange),
        tuple(dict.fromkeys((*failures, *unclear))),
    )
