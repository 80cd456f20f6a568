"""Whether a user's Java service does what its log gives, and whether its snapshot holds all of its state.

Copies of the service read the log of a member, in separate processes: as a follower and as a leader, from the beginning
and from snapshots at several places, under usual and under changed conditions. A difference in what they send, request
from the cluster or write as a snapshot is a finding. Each condition is then tried alone, and the finding names those
with an effect. A service that needs more than a copy offers runs in single-member Aeron clusters, see `java_members`.
"""

import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from upheaval.aeron_jars import versions_of
from upheaval.checkers.evidence.events import units_of_ms
from upheaval.checkers.evidence.log_messages import decode_message
from upheaval.checkers.own.asked_of_log import log_against_asked
from upheaval.checkers.own.cuts import CUTS, choose_cuts
from upheaval.checkers.own.effects import Entry, EntryKind
from upheaval.checkers.own.java_copies import (
    CannotReplayJava,
    Condition,
    CopyTrail,
    JavaService,
    Plan,
    TakenState,
)
from upheaval.checkers.own.java_members import AloneMembers
from upheaval.checkers.own.java_trails import Difference, first_difference
from upheaval.checkers.own.own_replay import untimed_ms
from upheaval.checkers.own.played import entries_of, leader_of_term
from upheaval.checkers.own.replay_process import read_log
from upheaval.checkers.states.replay import LoggedMessage
from upheaval.records import (
    CLUSTER_FILE,
    Manifest,
    MemberFolder,
    Payloads,
    RunFolder,
    answer_text,
    cluster_text,
    code_digest,
    read_origin,
)
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.service.api import ClusterTimeUnit

ENTRIES_MAX: Final = 300_000
"""The number of entries that all copies together may read. With a longer log, fewer copies start from a snapshot."""
_AT_ONCE: Final = 2
_RAISED: Final = "service-raised"
_WHOLE: Final = Plan()
_LEADER: Final = Plan(member_id=2, is_leader=True, does_background_work=True)
_LAUNCHED: Final = "; its launcher may start it with options or arguments that copies do not have"
_LEADER_ENDED: Final = "the copy that leads does not read the whole log"
_ROLES: Final[Mapping[str, Plan]] = {
    "role: cluster.role() or onRoleChange?": Plan(is_leader=True),
    "member id: cluster.memberId()?": Plan(member_id=2),
    "background work: a doBackgroundWork that changes the state?": Plan(does_background_work=True),
}
_GUESSES: Final[Mapping[Condition, str]] = {
    Condition.HASH_CODES: "the order of a HashMap or HashSet of objects without a hashCode of their own, or of enums?",
    Condition.CLOCK: "System.currentTimeMillis, nanoTime or java.time, instead of the timestamp of the callback?",
    Condition.TIME_ZONE: "local time?",
    Condition.LOCALE: "texts in the letters, the order or the bytes of a locale, without naming it?",
    Condition.MACHINE: "Runtime.availableProcessors or maxMemory?",
}
_EACH: Final = (
    "two replays under equal conditions differ: Random or UUID without a seed from the log, Set.of or Map.of, "
    "java.util.Date or Calendar, a thread, a file or the network?"
)


@dataclass(frozen=True, slots=True)
class JavaEgress:
    """The messages that copies of a service send, by session, as (text, position) in log order."""

    as_follower: Mapping[int, Sequence[tuple[str, int]]]
    as_leader: Mapping[int, Sequence[tuple[str, int]]]
    is_steady: bool
    """Whether a copy under changed conditions sends the same."""
    terms: Sequence[tuple[int, int]]
    """The start position and the leader of each term."""
    requests: Sequence[Entry]
    """The requests in the log."""


@dataclass(frozen=True, slots=True)
class JavaReplay:
    """The results of the copies: their states where the log asks for snapshots, and the first difference."""

    states: Mapping[int, TakenState] = field(default_factory=dict)
    """The states by position."""
    difference: Difference | None = None
    cuts: int = 0
    """The number of copies that started from a snapshot."""
    note: str = ""
    """What was left out, and why."""
    sent: JavaEgress | None = None
    """The messages to sessions; None if no copy read the log, or the one that leads did not read all of it."""
    by_aeron: str = ""
    """Why single-member Aeron clusters ran the service instead of copies; empty if copies did."""
    doubt: str = ""
    """Why members may rightly differ from all copies; empty if nothing explains that."""
    why_not: str = ""
    """Why there is no result; empty if there is one."""

    @property
    def egress(self) -> JavaEgress:
        """The messages to sessions. Raises `CannotReplayJava` if they are not known."""
        if self.sent is None:
            raise CannotReplayJava(self.why_not or self.by_aeron or _LEADER_ENDED)
        return self.sent


def no_java() -> JavaReplay:
    """The replay of a service that is not in Java."""
    return JavaReplay(why_not="its code is not Java")


def replay_java(run: RunFolder, manifest: Manifest, log_member: int, log_end: int) -> JavaReplay:
    """Replay the first service of the run. Failures of the user's code are part of the result."""
    try:
        judge = _judge(run, manifest, log_member, log_end)
        try:
            replay, raised = judge.judged()
            _require_driven(run, manifest, raised)
        except _CannotDrive as error:
            replay = judge.judged_by_aeron(run.member(log_member), str(error))
        return replace(replay, doubt=_LAUNCHED if cluster_text(run.path, "launcher") else "")
    except CannotReplayJava as error:
        return JavaReplay(why_not=str(error))


class _CannotDrive(CannotReplayJava):
    """The service needs more of the cluster than a copy offers. The message says what."""


def _judge(run: RunFolder, manifest: Manifest, log_member: int, log_end: int) -> "_Judge":
    why_not = why_no_java_service(run, manifest)
    if why_not:
        raise CannotReplayJava(why_not)
    version = versions_of(manifest.system.partition(":")[2])[-1]
    source, options = str(Path(manifest.source).absolute()), _options_of(run)
    service = JavaService(manifest.service, source, version, options)
    log = read_log(str(run.path), log_member, log_end)
    payloads = Payloads.of(run)
    untimed = untimed_ms(run, manifest.members)
    return _Judge(service, log, entries_of(log, payloads), payloads, not manifest.more_services, untimed)


def _options_of(run: RunFolder) -> list[str]:
    text = cluster_text(run.path, "jvm")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise CannotReplayJava(f"{CLUSTER_FILE}: jvm {text!r}: {error}") from None


def _require_driven(run: RunFolder, manifest: Manifest, raised: str) -> None:
    """Check that a service raised on a member, too, if it did in a copy. Raises `_CannotDrive`.

    A member that leads has an archive, for example, which a copy lacks.
    """
    if not raised:
        return
    members = map(run.member, range(manifest.members))
    if all(event.event != _RAISED for member in members for event in member.read_trace()):
        raise _CannotDrive(f"a copy of it {raised}, which no member did")


def why_no_java_service(run: RunFolder, manifest: Manifest) -> str:
    """Why the service cannot replay its log here; empty if it can."""
    if ":" not in manifest.service:
        return f"the class path of its service {manifest.service!r} is not known"
    if not manifest.source or not Path(manifest.source).is_dir():
        return "its code is missing"
    if read_origin(run.path) is not None:
        return "the log goes on from a state that it does not have"
    if not manifest.source_digest:
        return "the manifest has no digest of its class path"
    if code_digest(manifest.source, manifest.service, manifest.system) != manifest.source_digest:
        return "its class path was changed since the run"
    return ""


def time_unit(log: Sequence[LoggedMessage], entries: Sequence[Entry]) -> int:
    """The unit of cluster time, from the first term of the log."""
    terms = (message for message, entry in zip(log, entries, strict=True) if entry.kind is EntryKind.TERM)
    first = next(terms, None)
    term = None if first is None else decode_message(first.content)
    return int(term.time_unit) if isinstance(term, cm.NewLeadershipTermEvent) else ClusterTimeUnit.MILLIS


def _require_end(copy: CopyTrail) -> None:
    if copy.ended:
        raise _CannotDrive(f"a copy of it does not read the whole log: {copy.ended}")


@dataclass(frozen=True, slots=True)
class _Judge:
    service: JavaService
    log: Sequence[LoggedMessage]
    entries: Sequence[Entry]
    payloads: Payloads
    is_alone: bool
    untimed_ms: Sequence[tuple[int, int]]

    def judged(self) -> tuple[JavaReplay, str]:
        """Judge by copies. Also returns the first exception of the copy that read the whole log, or the one by which
        the copy that leads first differs; empty if there is none.
        """
        entries, log = self.entries, self.log
        (other,) = self.service.play(log, [_WHOLE], changed=tuple(Condition))
        _require_end(other)
        most = min(CUTS, max(1, ENTRIES_MAX // max(len(log), 1)))
        cuts = [cut for cut in choose_cuts(entries, other.effects_of(len(log)), most + 1) if cut][:most]
        whole, leader, *begun = self.service.play(log, [_WHOLE, _LEADER, *(Plan(cut) for cut in cuts)], cuts)
        _require_end(whole)
        states = {state.position: state for state in whole.states if state.is_asked}
        note = f"; of a log of {len(log)} entries, {most} places were tried instead of {CUTS}" if most < CUTS else ""
        difference = self._difference(whole, leader, other, begun)
        raised = self._raised(whole) or ("" if difference is None else difference.raised)
        # Of a copy that stopped on the way it is not known what it would have sent.
        sent = None if leader.ended else self._egress(whole, leader, other)
        return JavaReplay(states, difference, len(cuts), note, sent), raised

    def _egress(self, follower: CopyTrail, leader: CopyTrail, other: CopyTrail) -> JavaEgress:
        sent = self._sent(follower)
        terms = [(message.position, who) for message in self.log for who in leader_of_term(message)]
        requests = [entry for entry in self.entries if entry.kind is EntryKind.REQUEST]
        return JavaEgress(sent, self._sent(leader), self._sent(other) == sent, terms, requests)

    def _sent(self, copy: CopyTrail) -> dict[int, list[tuple[str, int]]]:
        by_session: dict[int, list[tuple[str, int]]] = {}
        for entry, done in zip(self.entries, copy.effects_of(len(self.log)), strict=True):
            for session, message in done.egress:
                by_session.setdefault(session, []).append((answer_text(message), entry.position))
        return by_session

    def _raised(self, whole: CopyTrail) -> str:
        return next((done.raised for done in whole.effects_of(len(self.log)) if done.raised), "")

    def judged_by_aeron(self, member: MemberFolder, why: str) -> JavaReplay:
        """Judge by single-member clusters with the member's files. `why` says why copies cannot judge."""
        if not self.is_alone:
            raise CannotReplayJava(f"{why}, and a member of Aeron alone would need its other services")
        last_time = max((entry.timestamp for entry in self.entries), default=0)
        alone = AloneMembers(self.service, member, last_time, time_unit(self.log, self.entries))
        try:
            return JavaReplay(difference=alone.difference(self.entries, self.payloads), by_aeron=why)
        except CannotReplayJava as error:
            raise CannotReplayJava(f"{why}; {error}") from None

    def _difference(
        self, whole: CopyTrail, leader: CopyTrail, other: CopyTrail, begun: Sequence[CopyTrail]
    ) -> Difference | None:
        """The first kind of difference that shows. Each kind causes the later ones, too."""
        difference = self._first_difference(whole, other)
        if difference is not None:
            return Difference(
                f"a copy under other conditions {difference.text}; {self._conditions(whole)}", difference.position
            )
        difference = self._first_difference(whole, leader, hears=False)
        if difference is not None:
            text = f"a copy that leads {difference.text}; {self._roles(whole)}"
            return replace(difference, text=text)
        for copy in begun:
            difference = self._first_difference(whole, copy)
            if difference is not None:
                place = self.entries[copy.plan.begin - 1].position
                text = f"a copy that begins with its own snapshot at position {place} {difference.text}"
                return Difference(f"{text}: the snapshot does not hold all of the state", difference.position)
        effects = whole.effects_of(len(self.log))
        units = units_of_ms(time_unit(self.log, self.entries))
        unasked = log_against_asked(
            self.entries,
            effects,
            units,
            has_other_services=not self.is_alone,
            untimed_ms=self.untimed_ms,
            payloads=self.payloads,
        )
        return None if unasked is None else Difference(unasked.detail, unasked.position, is_of_members=True)

    def _first_difference(self, whole: CopyTrail, other: CopyTrail, *, hears: bool = True) -> Difference | None:
        return first_difference(self.entries, whole, other, hears=hears, payloads=self.payloads)

    def _conditions(self, whole: CopyTrail) -> str:
        """The conditions that have an effect alone, in words."""
        if self._differs(whole, ()):
            return _EACH
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            differs = list(pool.map(lambda condition: self._differs(whole, (condition,)), Condition))
        causes = [condition for condition, is_cause in zip(Condition, differs, strict=True) if is_cause]
        return "; ".join(f"it differs with the {cause} alone: {_GUESSES[cause]}" for cause in causes) or (
            "no condition makes a difference alone"
        )

    def _differs(self, whole: CopyTrail, changed: Sequence[Condition]) -> bool:
        (tried,) = self.service.play(self.log, [_WHOLE], changed=changed)
        return self._first_difference(whole, tried) is not None

    def _roles(self, whole: CopyTrail) -> str:
        tried = self.service.play(self.log, list(_ROLES.values()))
        causes = [
            name
            for name, trail in zip(_ROLES, tried, strict=True)
            if self._first_difference(whole, trail, hears=False) is not None
        ]
        return (
            "; ".join(f"it differs with the {cause}" for cause in causes) or "no part of that makes a difference alone"
        )
