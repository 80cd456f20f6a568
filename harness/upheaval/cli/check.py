"""`upheaval check`: whether a history that has no log is linearizable, and if not, its shortest illegal prefix."""

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

from upheaval.checkers.history.foreign import ForeignHistory, read_foreign, read_value
from upheaval.checkers.history.illegal_prefix import IllegalPrefix, Shown, illegal_prefix
from upheaval.checkers.history.models.origins import completion_of
from upheaval.checkers.history.models.sequential import SequentialModel
from upheaval.checkers.history.models.table import KEY_MODELS
from upheaval.checkers.history.own_key_model import ModelRaised, OwnKeyModel, load_key_model
from upheaval.checkers.history.search import KeySearch, finding, on_key, parts, search_keys
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.cli.judge_commands import CheckOptions
from upheaval.cli.progress import ProgressLine, bar
from upheaval.cli.screen import screen_of
from upheaval.cli.tables import table
from upheaval.cli.verdict_text import Detail, verdict_text
from upheaval.errors import UsageError
from upheaval.python_path import on_python_path
from upheaval.records import FieldError, Outcome
from upheaval.records.values import value_text
from upheaval_node.types import NEVER_NS

_NS_PER_S = 1_000_000_000


def check(options: CheckOptions) -> int:
    """Print the verdict; returns the exit status."""
    history: ForeignHistory | None = None
    searched: list[KeySearch] = []
    prefix: IllegalPrefix | None = None
    # A custom model may print, and standard output is for the verdict.
    with on_python_path([str(Path.cwd())]), redirect_stdout(sys.stderr):
        model = _model(options.model, options.initial)
        try:
            history = read_foreign(options.history, model)
            searched = _search(history, model, options.limit)
            if isinstance(model, OwnKeyModel):
                model.require_repeatable()
            broken = next((key_search for key_search in searched if key_search.verdict is Verdict.INVALID), None)
            prefix = None if broken is None else illegal_prefix(broken, model, options.limit)
            judged = _finding(history, searched, prefix, model, options.limit)
        except ModelRaised as error:
            judged = Finding(Promise.LINEARIZABLE, Verdict.UNKNOWN, str(error))
    report = Report(str(options.history), (judged,))
    if options.json:
        fields = {
            **report.to_fields(),
            "read": None if history is None else history.reading.to_fields(),
            **_search_fields(searched, prefix, model, options.limit),
        }
        print(json.dumps(fields, indent=2))
        return report.verdict.exit_status
    if history is not None:
        if prefix is not None:
            print(f"{_explained(prefix, history, model)}\n")
        print(f"{history.reading}\n")
    # One promise: its evidence is the answer, also when it was kept.
    print(verdict_text(report, screen_of(), Detail.ALL), flush=True)
    return report.verdict.exit_status


def _model(name: str, initial: str | None) -> SequentialModel:
    model = KEY_MODELS.get(name)
    if initial is None:
        return model or load_key_model(name)
    if model is None:
        raise UsageError(f"--initial: expected one of the models {', '.join(KEY_MODELS)}, got {name}")
    try:
        return model.starting_with(read_value(initial))
    except FieldError as error:
        raise UsageError(f"--initial: {error}") from None


def _search(history: ForeignHistory, model: SequentialModel, limit: int) -> list[KeySearch]:
    of_keys = parts(history.operations, model)
    total = sum(key_search.answered_count for key_search in of_keys)
    line = ProgressLine()

    def watch(before: int, past: int, visited: int) -> None:
        done = before + past
        line.show(f"[{bar(done / total)}] {done} of {total} operations, {visited:,} configurations of this key")

    try:
        return search_keys(of_keys, model, limit, watch)
    finally:
        line.end()


def _finding(
    history: ForeignHistory, searched: list[KeySearch], prefix: IllegalPrefix | None, model: SequentialModel, limit: int
) -> Finding:
    if not any(operation.outcome is Outcome.OK for operation in history.operations):
        return Finding(Promise.LINEARIZABLE, Verdict.UNKNOWN, "no operation was answered")
    if prefix is None:
        return finding(searched, limit)
    last = next(call for call in prefix.shown if call.operation is prefix.last)
    what = f"operation {prefix.last.id}, {model.shown(prefix.last)}"
    if model.has_result(prefix.last.f):
        explained = f"{what}, returned {value_text(prefix.last.result)}; it could have returned {_possible(last)}"
    else:
        explained = f"{what}, succeeded"
    detail = f"{on_key(prefix.key)}no order explains that {explained}"
    return Finding(Promise.LINEARIZABLE, Verdict.INVALID, detail, operation=prefix.last.id)


def _search_fields(
    searched: list[KeySearch], prefix: IllegalPrefix | None, model: SequentialModel, limit: int
) -> dict[str, object]:
    keys = [
        {
            "key": key_search.key,
            "verdict": key_search.verdict.text,
            "operations": len(key_search.operations),
            "configurations": key_search.configurations,
        }
        for key_search in searched
    ]
    return {
        "model": model.name,
        "limit": limit,
        "keys": keys,
        "illegal_prefix": None if prefix is None else prefix.to_fields(),
    }


def _explained(prefix: IllegalPrefix, history: ForeignHistory, model: SequentialModel) -> str:
    """The prefix as a table: when it was, what was called, what it returned, and what it could have returned."""
    begin = min(operation.invoke_ns for operation in history.operations)
    moments = sorted(
        {call.operation.invoke_ns for call in prefix.shown}
        | {completion_of(call.operation) for call in prefix.shown} - {NEVER_NS}
    )
    rows = [["operation", "process", "from", "to", "order of events", "call", "returned", "possible"]]
    for seen in prefix.shown:
        operation = seen.operation
        completion = completion_of(operation)
        rows.append(
            [
                f"{operation.id}{' *' if operation is prefix.last else ''}",
                str(operation.process),
                _moment(operation.invoke_ns, begin, history),
                "-" if completion == NEVER_NS else _moment(completion, begin, history),
                _line(moments.index(operation.invoke_ns), completion, moments),
                model.shown(operation),
                _returned(seen, model),
                _possible(seen),
            ]
        )
    shortest = "the shortest illegal prefix" if prefix.is_shortest else "an illegal prefix"
    hidden = prefix.length - len(prefix.shown)
    note = f"; {hidden} operations are not shown" if hidden else ""
    return (
        f"{on_key(prefix.key)}{shortest} has {prefix.length} of {prefix.total} operations and ends with the answer of "
        f"operation {prefix.last.id} (*)\n{table(rows)}\n"
        f"possible: what it could have returned, all other answers as they are{note}"
    )


def _returned(shown: Shown, model: SequentialModel) -> str:
    operation = shown.operation
    if operation.outcome is not Outcome.OK:
        return "?"
    return value_text(operation.result) if model.has_result(operation.f) else ""


def _possible(shown: Shown) -> str:
    values = [value_text(value) for value in shown.possible]
    return " or ".join(values if shown.are_all_known else [*values, "what was not tried"])


def _moment(moment: int, begin: int, history: ForeignHistory) -> str:
    return f"{(moment - begin) / _NS_PER_S:.6f} s" if history.has_times else f"event {moment}"


def _line(begin: int, completion: int, moments: list[int]) -> str:
    """From the invocation to the completion, two characters for each moment at which something shown happens."""
    end = len(moments) if completion == NEVER_NS else moments.index(completion)
    return " " * (2 * begin) + "|" + "-" * (2 * (end - begin) - 1) + (">" if completion == NEVER_NS else "|")
