"""Compares the manifest's account of members and load with what members and clients left: services, seed, load.

Its demands are compared with the text of the scenario, and the clients' session records with history and log. Part of
the promise that the files of a run belong together.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from upheaval.checkers.evidence.events import SessionFacts
from upheaval.checkers.evidence.trace_facts import TraceFacts
from upheaval.checkers.history.columns import IS_CALL, IS_OK, KINDS, History
from upheaval.checkers.promises import promise_named
from upheaval.checkers.services.shipped import services_of
from upheaval.checkers.verdict import Broken, Verdict
from upheaval.records import OWN_SYSTEM, Function, Json, Manifest, SessionEnd, history
from upheaval_node.types import S

_FUNCTIONS: Final = {
    "ledger": frozenset(history.LEDGER),
    "timers": frozenset(history.TIMERS),
    "workbench": frozenset(history.WORKBENCH),
}
_REGISTER: Final = re.compile(r"r(\d+)")
"""The key of a register that a load asks for."""
_DEMAND: Final = re.compile(r"\s*promise\s+(.*\S)")
"""A statement of a scenario, without its comment."""
_IDS_A_SECOND: Final = 100_000
"""More session requests a second than a member reads."""
_IDS_AT_ONCE: Final = 1_000
"""Session requests that wait when a leader begins, or arrive at one simulated moment."""
_SIMULATED_ID: Final = re.compile(r"simulated-(-?\d+)-")


def require_described(
    manifest: Manifest, operations: History, traces: Sequence[TraceFacts], *, has_one_load: bool
) -> None:
    """Raises `Broken` for the first contradiction.

    `has_one_load`: only the manifest's load asked for keys, as in the run of a scenario.
    """
    _require_seed(manifest)
    for facts in traces:
        _require_services(manifest, facts)
    _require_load(manifest, operations, manifest.workload.get("keys") if has_one_load else None)


def require_demands(manifest: Manifest, scenario: str) -> None:
    """Raises `Broken` when manifest and scenario text demand different promises."""
    statements = (_DEMAND.match(line.partition("#")[0]) for line in scenario.split("\n"))
    demanded = [promise_named(statement[1]) or statement[1] for statement in statements if statement]
    for promise in demanded:
        if promise not in manifest.demanded:
            raise Broken(Verdict.INVALID, f"run.scenario demands {promise}, manifest.json does not")
    for promise in manifest.demanded:
        if promise not in demanded:
            raise Broken(Verdict.INVALID, f"manifest.json demands {promise}, run.scenario does not")


def _require_seed(manifest: Manifest) -> None:
    named = _SIMULATED_ID.match(manifest.run_id)
    if named and manifest.seed is not None and int(named[1]) != manifest.seed:
        detail = f"manifest.json has seed {manifest.seed}, the run is {manifest.run_id}"
        raise Broken(Verdict.INVALID, detail)


def _require_services(manifest: Manifest, facts: TraceFacts) -> None:
    """A member that reached an election has states of each of its services."""
    has_started = any(life.has_started for life in facts.lives)
    expected = set(range(1 + len(manifest.more_services)))
    if manifest.system != OWN_SYSTEM or not has_started or not facts.services or facts.services == expected:
        return
    shown = ", ".join(map(str, sorted(facts.services)))
    detail = f"{facts.name} has states of services {shown}, manifest.json has {len(expected)} services"
    raise Broken(Verdict.INVALID, detail, members=(facts.member_id,))


def _require_load(manifest: Manifest, operations: History, keys: Json) -> None:
    """Clients asked only for what a service of the run can do, and only for keys of the load."""
    services = services_of(manifest)
    known = frozenset[Function]().union(*(_FUNCTIONS.get(service, ()) for service in services))
    strange_kinds = {code for code, (f, _) in enumerate(KINDS) if known and f is not Function.CALL and f not in known}
    if strange_kinds.intersection(operations.kinds):
        operation = operations.at(next(row for row, kind in enumerate(operations.kinds) if kind in strange_kinds))
        detail = f"history.jsonl has operation id={operation.id} {operation.f}, which {services[0]} does not know"
        raise Broken(Verdict.INVALID, detail, position=operation.position, operation=operation.id)
    strange_keys = {key for key in operations.keys if _is_past(key, keys)}
    if strange_keys:
        operation = next(operation for operation in operations if operation.key in strange_keys)
        detail = f"history.jsonl has operation id={operation.id} on key {operation.key}, of a load on {keys} keys"
        raise Broken(Verdict.INVALID, detail, position=operation.position, operation=operation.id)


def _is_past(key: str, keys: Json) -> bool:
    """Whether the key is a register outside the load's range."""
    if type(keys) is not int:
        return False
    register = _REGISTER.fullmatch(key)
    return register is not None and int(register[1]) >= keys


def require_sessions(
    operations: History,
    ends: Iterable[SessionEnd],
    opened: Mapping[int, SessionFacts],
    traces: Sequence[TraceFacts],
    terms: Collection[int] = (),
) -> None:
    """If clients recorded all sessions, each answer came in one of them with its position, and each that has ended is
    in `opened` with its term. `terms` are those of the log.

    A leader answers a session request when it has appended the opening, before that is committed. An election may
    discard the entry, so a session of a deposed leader need not be in the log.
    """
    answered = set[int]()
    for row, (kind, session) in enumerate(zip(operations.kinds, operations.sessions, strict=True)):
        if not IS_OK[kind]:
            continue
        if session is not None:
            answered.add(session)
        elif not IS_CALL[kind]:
            operation = operations.at(row)
            detail = f"history.jsonl has operation id={operation.id}, which was answered, without its session"
            raise Broken(Verdict.UNKNOWN, detail, position=operation.position, operation=operation.id)
        if not IS_CALL[kind] and operations.positions[row] < 0:
            operation = operations.at(row)
            detail = f"history.jsonl has operation id={operation.id}, which was answered, without its position"
            raise Broken(Verdict.UNKNOWN, detail, operation=operation.id)
    for end in ends:
        facts, term = opened.get(end.session), end.leadership_term_id
        if facts is not None and (facts.open_term in (None, term) or _may_answer_later(end, facts, traces, terms)):
            continue
        is_answered = facts is None and end.session in answered
        if is_answered or not _may_be_uncommitted(end, opened.values(), traces):
            detail = f"sessions.jsonl has the end of session {end.session}, which the log never opened"
            if facts is not None:
                detail = f"{detail} in term {term}, but in term {facts.open_term}"
            raise Broken(Verdict.INVALID, detail)


def _may_answer_later(
    end: SessionEnd, facts: SessionFacts, traces: Sequence[TraceFacts], terms: Collection[int]
) -> bool:
    """Whether a leader of a later term may have answered: for an opening that the log had, or for another session with
    that id, whose opening it lost to a later leader with the older log.
    """
    term = end.leadership_term_id
    return facts.open_term is not None and facts.open_term < term and (term in terms or _has_led(end, traces))


def _has_led(end: SessionEnd, traces: Sequence[TraceFacts]) -> bool:
    """Whether a trace shows a leader of the term in which the client heard of its session."""
    term = end.leadership_term_id
    leads = (lead for facts in traces if term in facts.terms for lead in facts.terms[term].leads)
    return any(lead.begin_ns <= end.ended_ns for lead in leads)


def _may_be_uncommitted(end: SessionEnd, opened: Iterable[SessionFacts], traces: Sequence[TraceFacts]) -> bool:
    """Whether its leader may have appended the opening and lost the entry to a later leader.

    A leader numbers sessions upwards and commits in order, so the id is higher than all that the log opened up to that
    term. Each session request takes an id, so time bounds how much higher. A later leader does not know the session, so
    its client followed none.

    Members of Aeron do not trace who led. There a session of a later term in the log shows that the leader was deposed,
    and the id may be higher only by the number of requests that arrive at once.
    """
    term = end.leadership_term_id
    opened = list(opened)
    is_deposed = any(known.leads for facts in traces for later, known in facts.terms.items() if later > term)
    up_to_term = (facts.session_id for facts in opened if facts.open_term is not None and facts.open_term <= term)
    committed_id = max(up_to_term, default=0)
    if not any(facts.terms for facts in traces):
        is_deposed = any(facts.open_term is not None and facts.open_term > term for facts in opened)
        is_in_reach = committed_id < end.session <= committed_id + _IDS_AT_ONCE
        return is_deposed and is_in_reach and end.followed_term_id == term
    begins_ns = (lead.begin_ns for facts in traces for known in facts.terms.values() for lead in known.leads)
    led_ns = end.ended_ns - min(begins_ns, default=end.ended_ns)
    is_in_reach = committed_id < end.session <= committed_id + _IDS_AT_ONCE + led_ns * _IDS_A_SECOND // S
    return _has_led(end, traces) and is_deposed and is_in_reach and end.followed_term_id == term
