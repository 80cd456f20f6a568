"""Judges the calls of a history by the user's model, and the run by the user's promises.

The log gives the order: the model receives the requests in log order, and each acknowledged call must have the model's
answer. The user's code runs in a separate process (`own_model_process`). If it raises, the finding is unknown.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from upheaval.checkers.history.calls import CallEntry
from upheaval.checkers.history.placed_calls import PlacedCalls
from upheaval.checkers.own.interpreters import shared_interpreters
from upheaval.checkers.own.java_answers import compare_answers
from upheaval.checkers.own.java_copies import CannotReplayJava
from upheaval.checkers.own.java_service import JavaReplay, no_java, why_no_java_service
from upheaval.checkers.own.own_model_process import MODULE
from upheaval.checkers.own.own_replay import why_no_service
from upheaval.checkers.promises import OwnPromise, Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import OWN_SYSTEM, Manifest, Operation, Outcome, Payloads, RunFolder

_VERDICTS: Final = {True: Verdict.VALID, False: Verdict.INVALID, None: Verdict.UNKNOWN}


def check_own_model(
    run: RunFolder,
    manifest: Manifest,
    placed: PlacedCalls,
    entries: Sequence[CallEntry],
    log_member: int,
    log_end: int,
) -> list[Finding]:
    """The findings of the model and the promises in the manifest; empty if the manifest names no model.

    `entries` are the calls in the log of `log_member` up to the committed `log_end`, `placed` those of the history.
    """
    if not manifest.model:
        return []
    question = {
        "model": manifest.model,
        "source": manifest.model_source,
        "service": manifest.service,
        "why_no_service": why_no_service(run, manifest),
        "run": str(run.path.absolute()),
        "member": log_member,
        "end": log_end,
        "answers": {position: call.result for position, call in placed.by_position.items() if _has_result(call)},
    }
    judged = _asked(question)
    promises = [_own_promise(promise) for promise in judged.get("promises", ())]
    if ":" not in manifest.model and not judged.get("why"):
        return promises
    return [judge_answers(f"the model {manifest.model}", placed, entries, judged), *promises]


def check_own_answers(
    run: RunFolder,
    manifest: Manifest,
    calls: Sequence[Operation],
    placed: PlacedCalls,
    entries: Sequence[CallEntry],
    log_member: int,
    log_end: int,
    java: Callable[[], JavaReplay] = no_java,
) -> Finding | str:
    """The finding with the service as its own model, for a run without a model; or why no answer was judged.

    `calls` are those of the history, and `java` replays a service in Java. The other arguments are those of
    `check_own_model`.
    """
    is_java = manifest.system != OWN_SYSTEM
    why = why_no_java_service(run, manifest) if is_java else why_no_service(run, manifest)
    if manifest.more_services:
        why = "the members run more than one service, and any of them may answer"
    if why:
        return why
    overlapping = _overlapping(calls)
    answered = {position: call for position, call in placed.by_position.items() if _has_result(call)}
    answers = {position: str(call.result) for position, call in answered.items() if call.id not in overlapping}
    if not answers:
        return "no call was answered while it was the only one of its session"
    if is_java:
        replayed = _by_copies(java(), answers, Payloads.of(run))
    else:
        replayed = _by_replay(run, manifest, log_member, log_end, answers)
    if replayed.get("why"):
        return str(replayed["why"])
    finding = judge_answers(f"a replay of {manifest.service}", placed, entries, replayed)
    if finding.verdict is Verdict.UNKNOWN:
        return finding.detail
    left_out = len(answered) - len(answers)
    if finding.verdict is Verdict.INVALID or not left_out:
        return finding
    return replace(finding, detail=f"{finding.detail}; {left_out} answers of overlapping calls were not judged")


def _by_replay(
    run: RunFolder, manifest: Manifest, log_member: int, log_end: int, answers: Mapping[int, str]
) -> dict[str, Any]:
    """Compare the answers with those of a replay in Python."""
    question = {
        "model": manifest.service,
        "source": manifest.source,
        "service": manifest.service,
        "why_no_service": "",
        "run": str(run.path.absolute()),
        "member": log_member,
        "end": log_end,
        "answers": answers,
    }
    return _asked(question)


def _by_copies(replay: JavaReplay, answers: Mapping[int, str], payloads: Payloads) -> dict[str, Any]:
    """Compare the answers with those of copies in Java."""
    try:
        compared = compare_answers(replay.egress, answers, payloads)
        if "wrong" in compared:
            compared["wrong"]["doubt"] = replay.doubt
        return compared
    except CannotReplayJava as error:
        return {"why": str(error)}


def _asked(question: dict[str, Any]) -> dict[str, Any]:
    """The answer of the process of the model."""
    with shared_interpreters() as interpreters:
        answer = interpreters.ask(MODULE, question)
    return {"why": answer} if isinstance(answer, str) else answer


def _overlapping(calls: Sequence[Operation]) -> set[int]:
    """The ids of calls that were open at the same time as another call of their session.

    Any message of the session may answer them. A call that was given up stays open for those whose answers its client
    could not tell apart, because its answer may come late. A client that could (`matched`) tells late ones apart, too,
    or opens another session.
    """
    overlapping: set[int] = set()
    last_open: dict[int | None, Operation] = {}
    given_up: set[int | None] = set()
    for call in sorted(calls, key=lambda call: call.invoke_ns):
        before = last_open.get(call.session)
        if before is not None and (before.complete_ns or 0) > call.invoke_ns:
            overlapping |= {before.id, call.id}
        if call.session in given_up and not call.matched:
            overlapping.add(call.id)
        if call.outcome is not Outcome.OK or call.complete_ns is None:
            given_up.add(call.session)
        elif before is None or call.complete_ns > (before.complete_ns or 0):
            last_open[call.session] = call
    return overlapping


def _has_result(call: Operation) -> bool:
    return call.outcome is Outcome.OK and isinstance(call.result, str)


def _own_promise(result: dict[str, Any]) -> Finding:
    return Finding(
        OwnPromise.of(result["sentence"]),
        _VERDICTS[result["kept"]],
        result["detail"],
        position=result["position"],
        is_own_code_at_fault=result.get("at_fault", False),
    )


def judge_answers(source: str, placed: PlacedCalls, entries: Sequence[CallEntry], answer: dict[str, Any]) -> Finding:
    """Judge whether every answer is the expected one and the log contradicts no real-time order.

    `source` names a model or a replay that expected answers come from. `answer` is what its process found: `why` it
    failed, with the `position`; or the first `wrong` answer.
    """
    wrong, late = answer.get("wrong"), _overtaken(placed, entries)
    doubt = "" if wrong is None else wrong.get("doubt", "")
    if wrong is not None and (late is None or (wrong["position"] <= (late.position or 0) and not doubt)):
        call = placed.by_position[wrong["position"]]
        detail = (
            f"call {call.key} (operation {call.id}) at position {wrong['position']}, {wrong['request']}: "
            f"expected {wrong['expected']} by {source}, got {wrong['got']}{wrong.get('cause', '')}{doubt}"
        )
        verdict = Verdict.UNKNOWN if doubt else Verdict.INVALID
        return Finding(Promise.LINEARIZABLE, verdict, detail, position=wrong["position"], operation=call.id)
    if late is not None:
        return late
    if answer.get("why"):
        detail = f"{source}: {answer['why']}"
        position, is_at_fault = answer.get("position"), answer.get("at_fault", False)
        return Finding(
            Promise.LINEARIZABLE, Verdict.UNKNOWN, detail, position=position, is_own_code_at_fault=is_at_fault
        )
    unheard = [call for call in placed.by_position.values() if call.outcome is Outcome.OK and not _has_result(call)]
    unjudged = placed.unplaced or next(iter(unheard), None)
    if unjudged is not None:
        why = "its place in the log is unknown" if placed.unplaced else "its answer was not written down"
        detail = f"call {unjudged.key} (operation {unjudged.id}): {why}"
        return Finding(Promise.LINEARIZABLE, Verdict.UNKNOWN, detail, operation=unjudged.id)
    detail = f"{answer['judged']} answers of calls are those of {source} in the order of the log"
    return Finding(Promise.LINEARIZABLE, Verdict.VALID, detail)


def _overtaken(placed: PlacedCalls, entries: Iterable[CallEntry]) -> Finding | None:
    """The first call that completed before the invocation of one that precedes it in the log."""
    latest: Operation | None = None
    for entry in entries:
        call = placed.by_position.get(entry.position)
        if call is None:
            continue
        if latest is not None and call.complete_ns is not None and call.complete_ns < latest.invoke_ns:
            detail = (
                f"call {call.key} (operation {call.id}) at position {entry.position} had completed before operation "
                f"{latest.id} was invoked, which is before it in the log"
            )
            return Finding(Promise.LINEARIZABLE, Verdict.INVALID, detail, position=entry.position, operation=call.id)
        if latest is None or call.invoke_ns > latest.invoke_ns:
            latest = call
    return None
