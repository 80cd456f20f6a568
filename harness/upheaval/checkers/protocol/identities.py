"""The promises of a cluster with authentication: which clients it served, and with which peers it had connections.

`security.json` of the run folder says who may be admitted. The log says who was admitted, `attempts.jsonl` has the
results of wrong credentials, and each member's trace lists its peers. This module knows no cluster.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.checkers.checker import OF_LOG, Checker, Source
from upheaval.checkers.evidence.events import SessionFacts
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.evidence.trace_facts import TraceFacts
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, NotApplicable, Result, Verdict, trace_missing
from upheaval.records import (
    ConnectAnswer,
    Manifest,
    RunFolder,
    TraceEvent,
    WrongCredentials,
    jsonfields,
)
from upheaval.records.connect_attempts import ATTEMPTS_NAME
from upheaval_node.tls_files import member_name
from upheaval_node.trace_kinds import TraceKind

SECURITY_FILE: Final = "security.json"
PRINCIPALS: Final = "principals"
AUTHORITIES: Final = "authorities"

_PROMISES: Final = (Promise.ONLY_CREDENTIALS, Promise.ONLY_AUTHORITY)
_SHOWN: Final = {
    WrongCredentials.SECRET: "a wrong secret of a known user",
    WrongCredentials.NAME: "an unknown name",
    WrongCredentials.NOTHING: "no credentials",
}

_WITH_SOCKETS: Final = ("all", "archive")
"""Names of the member's process that holds its connections."""


def check_identities(
    run: RunFolder, manifest: Manifest, sessions: Mapping[int, SessionFacts] | None, traces: Iterable[TraceFacts]
) -> list[Result]:
    """Judge both promises. `sessions` is None if there is no whole log."""
    path = run.path / SECURITY_FILE
    policy = jsonfields.read_file(_Policy, path) if path.exists() else _Policy()
    if policy == _Policy() and SECURITY_FILE in manifest.written:
        detail = f"{SECURITY_FILE} has neither principals nor authorities, and was written for one of them"
        return [Finding(promise, Verdict.UNKNOWN, detail) for promise in _PROMISES]
    return [
        NotApplicable(Promise.ONLY_CREDENTIALS, "the cluster asks for no credentials")
        if policy.principals is None
        else _judge_sessions(policy.principals, sessions, _wrong(run)),
        _without_authorities(traces)
        if policy.authorities is None
        else _judge_connections(run, manifest, policy.authorities),
    ]


@dataclass(frozen=True, slots=True)
class _Policy:
    """Who may be admitted; None if there is no restriction."""

    principals: tuple[str, ...] | None = None
    authorities: tuple[str, ...] | None = None


def _judge_sessions(
    principals: Iterable[str],
    sessions: Mapping[int, SessionFacts] | None,
    attempts: Sequence[tuple[WrongCredentials, ConnectAnswer]],
) -> Finding:
    for shown, answer in attempts:
        if answer is ConnectAnswer.ADMITTED:
            detail = f"{ATTEMPTS_NAME}: a client that showed {_SHOWN[shown]} was let in"
            return Finding(Promise.ONLY_CREDENTIALS, Verdict.INVALID, detail)
    if sessions is None:
        return Finding(Promise.ONLY_CREDENTIALS, Verdict.UNKNOWN, "no log from its beginning")
    known = {name.encode() for name in principals}
    opened = 0
    for session_id in sorted(sessions):
        facts = sessions[session_id]
        for position, principal in zip(facts.opened, facts.principals, strict=True):
            opened += 1
            if principal not in known:
                name = principal[:100].decode("utf-8", "replace")
                whose = f"for {name!r}, who" if name else "without a name, which"
                opened_at = f"session {session_id} opened at position {position}"
                detail = f"{opened_at} {whose} is not in the credentials file"
                return Finding(Promise.ONLY_CREDENTIALS, Verdict.INVALID, detail, position=position)
    if not opened:
        return Finding(Promise.ONLY_CREDENTIALS, Verdict.UNKNOWN, "no session was opened at all")
    sure = f"{opened} sessions, all of {len(known)} principals of the credentials file"
    refused = [shown for shown, answer in attempts if answer is ConnectAnswer.REFUSED]
    unanswered = [wrong for wrong in WrongCredentials if wrong not in refused]
    if attempts and unanswered:
        detail = f"no member answered to {_SHOWN[unanswered[0]]}"
        return Finding(Promise.ONLY_CREDENTIALS, Verdict.UNKNOWN, detail)
    tried = f"refused {len(refused)} times to those with wrong ones" if attempts else "no client tried with wrong ones"
    return Finding(Promise.ONLY_CREDENTIALS, Verdict.VALID, f"{sure}; {tried}")


def _without_authorities(traces: Iterable[TraceFacts]) -> Result:
    """A cluster without authorities has no connections over TLS."""
    for facts in traces:
        if facts.tls_peer is not None:
            where = f"{facts.name}:{facts.tls_peer.line}"
            detail = f"{where} is a connection over TLS, and {SECURITY_FILE} has no authorities"
            return Finding(Promise.ONLY_AUTHORITY, Verdict.UNKNOWN, detail, members=(facts.member_id,))
    return NotApplicable(Promise.ONLY_AUTHORITY, "the cluster has no certificates")


def _wrong(run: RunFolder) -> list[tuple[WrongCredentials, ConnectAnswer]]:
    """The attempts with wrong credentials."""
    return [(attempt.shown, attempt.answer) for attempt in run.read_attempts() if attempt.shown is not None]


def _judge_connections(run: RunFolder, manifest: Manifest, authorities: Collection[str]) -> Finding:
    names: set[str] = set()
    count = 0
    for member_id in range(manifest.members):
        folder = run.member(member_id)
        if not folder.trace.exists():
            return trace_missing(Promise.ONLY_AUTHORITY, member_id)
        events = list(folder.read_trace())
        broken = _first_broken(member_id, events, authorities)
        if broken is not None:
            return broken
        peers = [str(event.fields.get("name")) for event in events if event.event == TraceKind.TLS_PEER]
        if not peers:
            detail = f"member {member_id} had no connections at all"
            return Finding(Promise.ONLY_AUTHORITY, Verdict.UNKNOWN, detail, members=(member_id,))
        names |= set(peers)
        count += len(peers)
    detail = f"{count} connections, with {', '.join(sorted(names)[:12])}"
    return Finding(Promise.ONLY_AUTHORITY, Verdict.VALID, detail)


def _first_broken(member_id: int, events: Iterable[TraceEvent], authorities: Collection[str]) -> Finding | None:
    has_read = False
    for event in events:
        fields = event.fields
        if fields.get("component") not in _WITH_SOCKETS:
            continue
        if event.event == TraceKind.PROCESS_START:
            has_read = False
        elif event.event == TraceKind.CERTIFICATES_READ:
            has_read = True
            if fields.get("name") != member_name(member_id):
                return _broken_at(member_id, event, f"it is {fields.get('name')!r}")
        elif event.event == TraceKind.TLS_PEER and fields.get("authority") not in authorities:
            name, authority = fields.get("name"), fields.get("authority")
            return _broken_at(member_id, event, f"{name!r} is of {authority!r}, not of our authority")
        elif not has_read and event.event in (TraceKind.TLS_PEER, TraceKind.LEADERSHIP_TERM):
            return _broken_at(member_id, event, "it had no certificate when it took part")
    return None


def _broken_at(member_id: int, event: TraceEvent, why: str) -> Finding:
    detail = f"member-{member_id}/trace.jsonl:{event.line}: {why}"
    when_ns = (event.ns, event.ns)
    return Finding(Promise.ONLY_AUTHORITY, Verdict.INVALID, detail, members=(member_id,), when_ns=when_ns)


def _check(evidence: Evidence) -> Iterable[Result]:
    sessions = None
    if (evidence.run.path / SECURITY_FILE).exists() and evidence.whole_log is not None:
        sessions = evidence.whole_log.events.sessions
    return check_identities(evidence.run, evidence.manifest, sessions, evidence.traces)


IDENTITIES: Final = Checker("identities", _PROMISES, OF_LOG | {Source.SECURITY, Source.ATTEMPTS}, _check)
