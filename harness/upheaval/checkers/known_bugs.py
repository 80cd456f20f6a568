"""Known bugs of Aeron Cluster that can explain a finding: their signatures, and the versions that have them.

Signatures are compared value by value. A match does not change the verdict: a known bug breaks its promise like any
other bug.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from upheaval.aeron_jars import is_version, order_of
from upheaval.checkers.promises import AnyPromise, Promise
from upheaval.checkers.signature import (
    COMMIT_FELL,
    FOLLOWER,
    LEADER,
    MARK_IN_ACTIVATION,
    MODULE_CLOSED,
    Rule,
    Signature,
)
from upheaval.checkers.verdict import Finding, Verdict

AERON: Final = "aeron"


@dataclass(frozen=True, slots=True)
class KnownSignature:
    """The signature of one issue, of a defect that a commit mended, or of one that has a name in words. Affects
    versions from `since` (inclusive) to `before` (exclusive); empty means no bound.
    """

    issue: int | str
    promise: Promise
    signature: Signature
    since: str = ""
    before: str = ""
    follows: tuple[Promise, ...] = ()
    """Promises that the bug breaks as a consequence, once it has broken `promise`."""

    @property
    def cause(self) -> str:
        """The name of a defect without an issue, in words."""
        name = str(self.issue)
        return name if " " in name else f"Aeron before commit {name}"

    def is_in(self, version: str) -> bool:
        """Whether that version has the bug."""
        order = order_of(version)
        is_late = not self.since or order_of(self.since) <= order
        return is_late and (not self.before or order < order_of(self.before))


SLOW_DRIVER: Final = "a driver that answers late (docs/findings.md, a session unknown to the service of a leader)"
KNOWN_SIGNATURES: Final = (
    # Before 1.47.0 it is hidden by 1690, which loses the same clients.
    KnownSignature(1397, Promise.PROGRESS, Signature(Rule.LOST_CLIENTS, role=LEADER), since="1.47.0", before="1.48.0"),
    KnownSignature(
        1601, Promise.PROGRESS, Signature(Rule.SILENT_LEADER, role=LEADER, fault="pause service"), before="1.45.0"
    ),
    KnownSignature(
        1671,
        Promise.NO_UNEXPLAINED_END,
        Signature(Rule.UNEXPECTED_END, entry="ClusterException", where="ConsensusModuleAgent.onNewLeadershipTerm"),
        before="1.47.0",
    ),
    KnownSignature(1690, Promise.PROGRESS, Signature(Rule.LOST_CLIENTS, role=LEADER), before="1.47.0"),
    KnownSignature(
        1703,
        Promise.SNAPSHOT_IS_REPLAY,
        Signature(Rule.MODULE_NOT_OF_LOG, entry="PendingMessageTracker.next_service_session_id"),
        before="1.47.3",
        follows=(Promise.SERVICE_MESSAGES_ONCE,),
    ),
    KnownSignature(
        1739,
        Promise.STATES_AGREE,
        Signature(Rule.MODULES_DIFFER, entry="ConsensusModule.next_session_id"),
        before="1.47.5",
        follows=(Promise.SNAPSHOT_IS_REPLAY,),
    ),
    KnownSignature(1788, Promise.CLIENTS_IN_ORDER, Signature(Rule.SESSION_GAP, role=LEADER), before="1.48.0"),
    KnownSignature(
        1797,
        Promise.NO_UNEXPLAINED_END,
        Signature(
            Rule.UNFORESEEN,
            role=LEADER,
            entry="NullPointerException",
            where="ConsensusModuleAgent.onTerminationAck",
        ),
        before="1.47.5",
    ),
    KnownSignature(1898, Promise.COMMITS_KEPT, Signature(Rule.TERM_BELOW_COMMIT, role=FOLLOWER), before="1.51.0"),
    KnownSignature(
        1917, Promise.MEMBERS_JOIN, Signature(Rule.NOT_JOINED, state="FOLLOWER_CATCHUP_AWAIT"), before="1.51.0"
    ),
    KnownSignature(
        1918,
        Promise.STATES_AGREE,
        Signature(Rule.MODULES_DIFFER, entry="ConsensusModule.next_session_id"),
        before="1.51.0",
        follows=(Promise.SNAPSHOT_IS_REPLAY,),
    ),
    KnownSignature(
        2147,
        Promise.COMMITS_KEPT,
        Signature(Rule.EARLIER_TERM_COUNTED, role=LEADER),
        since="1.50.0",
        follows=(Promise.ACKNOWLEDGED_NOT_LOST,),
    ),
    KnownSignature(
        2148, Promise.NO_UNEXPLAINED_END, Signature(Rule.REFUSED_START, entry=MARK_IN_ACTIVATION), since="1.48.0"
    ),
    KnownSignature(
        "a5d5072d5f",
        Promise.MEMBERS_JOIN,
        Signature(Rule.NOT_JOINED, entry=MODULE_CLOSED),
        before="1.50.0",
    ),
    KnownSignature(
        "a9d7215d74",
        Promise.MEMBERS_JOIN,
        Signature(Rule.NOT_JOINED, state="LEADER_REPLAY", entry=COMMIT_FELL),
        before="1.50.0",
    ),
    KnownSignature(
        "ba9e9c1df7",
        Promise.NO_UNEXPLAINED_END,
        Signature(Rule.UNFORESEEN, role=FOLLOWER, state="FOLLOWER_CATCHUP", entry="NullPointerException"),
        before="1.49.1",
    ),
    KnownSignature(
        SLOW_DRIVER,
        Promise.SNAPSHOT_IS_REPLAY,
        Signature(Rule.SESSION_UNKNOWN, entry="ClientSession"),
        # Read in the sources of these versions; later ones were not read.
        since="1.44.1",
        before="1.52.0",
        follows=(Promise.STATES_AGREE, Promise.MONEY_CONSERVED),
    ),
)
"""Ordered by their issue number in `aeron-io/aeron`; then those that a commit mended without one, and our own."""


def recognised(findings: Sequence[Finding], systems: Iterable[str]) -> tuple[Finding, ...]:
    """Mark the findings that match a known bug of one of the systems with its issue or name."""
    versions = _versions(systems)
    direct = [_known(finding, versions) for finding in findings]
    by_promise: dict[AnyPromise, KnownSignature] = {
        promise: known for known in direct if known is not None for promise in known.follows
    }
    by_promise |= {known.promise: known for known in direct if known is not None}
    return tuple(_marked(finding, by_promise) for finding in findings)


def _marked(finding: Finding, by_promise: Mapping[AnyPromise, KnownSignature]) -> Finding:
    known = by_promise.get(finding.promise) if finding.verdict is Verdict.INVALID else None
    if known is None:
        return finding
    if isinstance(known.issue, int):
        return replace(finding, known_issue=known.issue)
    return replace(finding, known_cause=known.cause)


def _known(finding: Finding, versions: Sequence[str]) -> KnownSignature | None:
    if finding.verdict is not Verdict.INVALID or finding.signature is None:
        return None
    for known in KNOWN_SIGNATURES:
        is_alike = known.promise == finding.promise and known.signature.matches(finding.signature)
        if is_alike and any(map(known.is_in, versions)):
            return known
    return None


def _versions(systems: Iterable[str]) -> list[str]:
    """The Aeron versions among the systems. A manifest may hold any text, so whatever is no version is skipped."""
    named = (system.partition(":") for system in systems)
    versions = [version for name, _, versions in named if name == AERON for version in versions.split(",")]
    return [version for version in versions if is_version(version)]
