"""Judges the messages that sessions of a custom service received other than answers, by replaying the log."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upheaval.checkers.own.heard import Sent, Unexplained, first_unexplained
from upheaval.checkers.own.interpreters import shared_interpreters
from upheaval.checkers.own.java_copies import CannotReplayJava
from upheaval.checkers.own.java_service import JavaReplay, no_java
from upheaval.checkers.own.own_replay import CannotReplay, ask, why_no_service
from upheaval.checkers.own.replay_process import Order, Task
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import OWN_SYSTEM, Manifest, Operation, Outcome, RunFolder, Stray


@dataclass(frozen=True, slots=True)
class Heard:
    """What clients recorded: calls with their answers, and the other messages, in order."""

    calls: Sequence[Operation]
    strays: Sequence[Stray]

    def news(self) -> Mapping[int, Sequence[str]]:
        """The texts of the other messages, by session."""
        heard: dict[int, list[str]] = {}
        for stray in self.strays:
            if stray.text is not None:
                heard.setdefault(stray.session, []).append(stray.text)
        return heard

    def answers(self, session: int) -> Sequence[str]:
        """The answers that the session may have received."""
        calls = (call for call in self.calls if call.outcome is Outcome.OK and call.session in (session, None))
        return [call.result for call in calls if isinstance(call.result, str)]


def check_news(
    run: RunFolder,
    manifest: Manifest,
    heard: Heard,
    log_member: int,
    log_end: int,
    *,
    has_faults: bool,
    java: Callable[[], JavaReplay] = no_java,
) -> Finding | str:
    """The finding, or why no messages were judged. `java` replays a service in Java."""
    news = heard.news()
    if not news:
        return "no session heard anything but answers to its calls"
    if manifest.more_services:
        return "what sessions heard is not replayed: the members run more than one service"
    try:
        if manifest.system == OWN_SYSTEM:
            replayed = _of_python(run, manifest, log_member, log_end, tuple(news))
        else:
            replayed = _of_java(java(), tuple(news))
    except (CannotReplay, CannotReplayJava) as error:
        return f"what sessions heard is not replayed: {error}"
    if not replayed["is_steady"] and manifest.model:
        return "two replays of the log send something else to sessions, and the model may allow it"
    return _judged(heard, news, replayed, has_faults=has_faults)


def _of_python(
    run: RunFolder, manifest: Manifest, log_member: int, log_end: int, sessions: tuple[int, ...]
) -> Mapping[str, Any]:
    why = why_no_service(run, manifest)
    if why:
        raise CannotReplay(why)
    source, folder = str(Path(manifest.source).absolute()), str(run.path.absolute())
    order = Order(manifest.service, source, folder, log_member, log_end, (), task=Task.EGRESS, sessions=sessions)
    with shared_interpreters() as interpreters:
        return ask(interpreters, order)


def _of_java(replay: JavaReplay, sessions: tuple[int, ...]) -> Mapping[str, Any]:
    """The egress of a Java service, in the format of the Python process."""
    replayed = replay.egress
    return {
        "egress": {str(session): replayed.as_follower.get(session, ()) for session in sessions},
        "as_leader": {str(session): replayed.as_leader.get(session, ()) for session in sessions},
        "is_steady": replayed.is_steady,
        "terms": replayed.terms,
        "doubt": replay.doubt,
    }


def _judged(
    heard: Heard, news: Mapping[int, Sequence[str]], replayed: Mapping[str, Any], *, has_faults: bool
) -> Finding:
    is_steady = replayed["is_steady"]
    # Where answers differ in each replay, those that were heard look like messages that are missing.
    has_all = not has_faults and len(replayed["terms"]) == 1 and is_steady
    cause = "" if is_steady else "; two replays send different messages, too: a clock, a random number or an address?"
    for session, texts in sorted(news.items()):
        broken = _broken_in(session, texts, heard.answers(session), replayed, has_all=has_all)
        if broken is not None:
            who = "" if broken.leader is None else f", member {broken.leader} led"
            members = () if broken.leader is None else (broken.leader,)
            doubt = replayed.get("doubt", "")
            detail = f"session {session} {broken.detail}{who}{cause}{doubt}"
            verdict = Verdict.UNKNOWN if doubt else Verdict.INVALID
            return Finding(Promise.ANSWERED_ONCE, verdict, detail, members=members, position=broken.position)
    count = sum(map(len, news.values()))
    detail = f"{count} messages of sessions besides answers are those of a replay, in its order (sessions: {len(news)})"
    return Finding(Promise.ANSWERED_ONCE, Verdict.VALID, detail)


def _broken_in(
    session: int, texts: Sequence[str], answers: Sequence[str], replayed: Mapping[str, Any], *, has_all: bool
) -> Unexplained | None:
    """The first message that neither a following nor a leading copy explains: a service may send only while it
    leads.
    """
    broken = None
    for copy in ("egress", "as_leader"):
        sent = list(_sent(replayed[copy].get(str(session), ()), replayed["terms"]))
        broken = first_unexplained(sent, texts, answers, has_all=has_all)
        if broken is None:
            return None
    return broken


def _sent(egress: Iterable[tuple[str, int]], terms: Sequence[tuple[int, int]]) -> Iterable[Sent]:
    """Pair each message with the leader at its position. `terms` has (begin, leader)."""
    for text, position in egress:
        leader = next((leader for begin, leader in reversed(terms) if begin <= position), -1)
        yield Sent(text, position, leader)
