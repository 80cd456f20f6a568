"""Known bugs of Aeron Cluster that can explain a finding: their signatures, and the versions that have them.

Signatures are compared value by value, and versions are those of the finding's members at its time. A finding is that
of a known bug only if all its violations are. A match does not change the verdict: a known bug breaks its promise like
any other bug.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from upheaval.aeron_jars import is_version, order_of
from upheaval.checkers.evidence.trace_facts import ProcessLife, TraceFacts
from upheaval.checkers.promises import Promise
from upheaval.checkers.signature import (
    ALL_DOWN,
    CLIENTS_CUT,
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
COMMIT: Final = "Aeron before commit "
"""Precedes a commit as the cause of a finding."""


@dataclass(frozen=True, slots=True)
class Consequence:
    """A finding on another promise that a bug causes besides."""

    promise: Promise
    signature: Signature | None = None
    """None: its findings have no signature. One that has a signature is of another cause."""

    def may_be(self, finding: Finding, cause: Finding) -> bool:
        """Whether it can be a consequence of `cause`: no earlier in the log, and not of other members alone."""
        if finding.promise != self.promise or not _are_alike(self.signature, finding.signature):
            return False
        if finding.position is not None and cause.since is not None and finding.position < cause.since:
            return False
        return not finding.members or not cause.members or not {*cause.members}.isdisjoint(finding.members)


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
    follows: tuple[Consequence, ...] = ()
    """What the bug breaks as a consequence, once it has broken `promise`."""
    is_of_client: bool = False
    """Whether the defect is in the client, which may have the version of any member, also of one before an upgrade."""

    @property
    def cause(self) -> str:
        """The name of a defect without an issue, in words."""
        return cause_named(self.issue)

    def is_in(self, version: str) -> bool:
        """Whether that version has the bug."""
        order = order_of(version)
        is_late = not self.since or order_of(self.since) <= order
        return is_late and (not self.before or order < order_of(self.before))

    def mark(self, finding: Finding) -> Finding:
        """The finding with the issue or name."""
        if isinstance(self.issue, int):
            return replace(finding, known_issue=self.issue)
        return replace(finding, known_cause=self.cause)


SLOW_DRIVER: Final = "a driver that answers late (docs/findings.md, a session unknown to the service of a leader)"
_NEXT_SESSION_NOT_OF_LOG: Final = Signature(Rule.MODULE_NOT_OF_LOG, entry="ConsensusModule.next_session_id")
KNOWN_SIGNATURES: Final = (
    # Before 1.47.0 it is hidden by 1690, which loses the same clients.
    KnownSignature(
        1397,
        Promise.PROGRESS,
        Signature(Rule.LOST_CLIENTS, role=LEADER, entry=ALL_DOWN),
        since="1.47.0",
        before="1.48.0",
        is_of_client=True,
    ),
    KnownSignature(
        1601, Promise.PROGRESS, Signature(Rule.SILENT_LEADER, role=LEADER, fault="pause service"), before="1.45.0"
    ),
    KnownSignature(
        1671,
        Promise.NO_UNEXPLAINED_END,
        Signature(Rule.UNEXPECTED_END, entry="ClusterException", where="ConsensusModuleAgent.onNewLeadershipTerm"),
        before="1.47.0",
    ),
    KnownSignature(
        1690,
        Promise.PROGRESS,
        Signature(Rule.LOST_CLIENTS, role=LEADER, entry=ALL_DOWN),
        before="1.47.0",
        is_of_client=True,
    ),
    KnownSignature(
        1703,
        Promise.SNAPSHOT_IS_REPLAY,
        Signature(Rule.MODULE_NOT_OF_LOG, entry="PendingMessageTracker.next_service_session_id"),
        before="1.47.3",
        follows=(Consequence(Promise.SERVICE_MESSAGES_ONCE),),
    ),
    KnownSignature(
        1739,
        Promise.STATES_AGREE,
        Signature(Rule.MODULES_DIFFER, entry="ConsensusModule.next_session_id"),
        before="1.47.5",
        follows=(Consequence(Promise.SNAPSHOT_IS_REPLAY, _NEXT_SESSION_NOT_OF_LOG),),
    ),
    KnownSignature(
        1788,
        Promise.CLIENTS_IN_ORDER,
        Signature(Rule.SESSION_GAP, role=LEADER, entry=CLIENTS_CUT),
        before="1.48.0",
    ),
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
        follows=(Consequence(Promise.SNAPSHOT_IS_REPLAY, _NEXT_SESSION_NOT_OF_LOG),),
    ),
    KnownSignature(
        2147,
        Promise.COMMITS_KEPT,
        Signature(Rule.EARLIER_TERM_COUNTED, role=LEADER),
        since="1.50.0",
        follows=(Consequence(Promise.ACKNOWLEDGED_NOT_LOST),),
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
        Signature(
            Rule.UNFORESEEN,
            role=FOLLOWER,
            state="FOLLOWER_CATCHUP",
            entry="NullPointerException",
            # Read in the classes of 1.46.9 and 1.49.3: there the log has no image for a moment.
            where="ConsensusModuleAgent.catchupPoll",
        ),
        before="1.49.1",
    ),
    KnownSignature(
        SLOW_DRIVER,
        Promise.SNAPSHOT_IS_REPLAY,
        Signature(Rule.SESSION_UNKNOWN, entry="ClientSession"),
        # Read in the sources of these versions; later ones were not read.
        since="1.44.1",
        before="1.52.0",
        follows=(Consequence(Promise.STATES_AGREE), Consequence(Promise.MONEY_CONSERVED)),
    ),
)
"""Ordered by their issue number in `aeron-io/aeron`; then those that a commit mended without one, and our own."""


def cause_named(issue: int | str) -> str:
    """What findings call a defect that a commit mended, or that has a name in words."""
    name = str(issue)
    return name if " " in name else f"{COMMIT}{name}"


def recognised(
    findings: Sequence[Finding], systems: Iterable[str], traces: Sequence[TraceFacts] = ()
) -> tuple[Finding, ...]:
    """Mark the findings that match a known bug with its issue or name. A violation that matches none comes first.

    `systems` are all that the members had one after the other, `traces` show which of their versions had each when.
    """
    versions = _Versions(systems, traces)
    singles = [(one, versions.known_of(one)) for finding in findings for one in _violations(finding)]
    causes = [(one, known) for one, known in singles if known is not None]
    return tuple(_marked(finding, versions, causes) for finding in findings)


def _violations(finding: Finding) -> Iterator[Finding]:
    if finding.verdict is Verdict.INVALID:
        yield from (replace(finding, besides=()), *finding.besides)


def _marked(finding: Finding, versions: "_Versions", causes: Sequence[tuple[Finding, KnownSignature]]) -> Finding:
    marked: list[Finding] = []
    for one in _violations(finding):
        known = versions.known_of(one) or next(
            (known for cause, known in causes for effect in known.follows if effect.may_be(one, cause)), None
        )
        marked.append(one if known is None else known.mark(one))
    if not marked:
        return finding
    first, *others = sorted(marked, key=lambda one: bool(one.known))
    return replace(first, besides=tuple(others))


def _are_alike(wanted: Signature | None, actual: Signature | None) -> bool:
    if wanted is None or actual is None:
        return wanted is actual
    return wanted.matches(actual)


class _Versions:
    """The versions of Aeron that members had, and when."""

    def __init__(self, systems: Iterable[str], traces: Sequence[TraceFacts]) -> None:
        named = (system.partition(":") for system in systems)
        versions = [version for name, _, versions in named if name == AERON for version in versions.split(",")]
        # A manifest may hold any text.
        self._every = list(dict.fromkeys(filter(is_version, versions)))
        self._traces = traces

    def known_of(self, finding: Finding) -> KnownSignature | None:
        """The known bug that the finding has the signature of, and its members at its time the version."""
        if finding.signature is None:
            return None
        for known in KNOWN_SIGNATURES:
            if known.promise == finding.promise and known.signature.matches(finding.signature):
                versions = self._every if known.is_of_client else self._of(finding)
                if any(map(known.is_in, versions)):
                    return known
        return None

    def _of(self, finding: Finding) -> Sequence[str]:
        """Those that the traces show; all of the run if they show none of these."""
        traced = {life.version for life in self._lives(finding)}
        return [version for version in self._every if version.partition("@")[0] in traced] or self._every

    def _lives(self, finding: Finding) -> Iterator[ProcessLife]:
        for facts in self._traces:
            if finding.members and facts.member_id not in finding.members:
                continue
            taken = None if finding.position is None else facts.snapshots.get(finding.position)
            when_ns = (taken.ns, taken.ns) if finding.when_ns is None and taken else finding.when_ns
            for life in facts.lives:
                # Between two processes the first one counts.
                is_over = when_ns is not None and life.next_ns is not None and life.next_ns <= when_ns[0]
                if not is_over and (when_ns is None or life.begin_ns <= when_ns[1]):
                    yield life
