"""Runs in which answers overtook others of their session: of each pair the second in the log was answered first."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.bad_runs.bad_run import BadRun
from upheaval.checkers.promises import Promise

_SCENARIO = "leader-killed"
_Line = dict[str, Any]


def _change(run: Path, change: Callable[[_Line, _Line], None]) -> None:
    """Change two operations of one session that lie one after the other in the log, as if they had been sent together.

    They are two of different slots in the middle of the run.
    """
    path = run / "history.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    answered = sorted((line for line in lines if line["outcome"] == "ok"), key=lambda line: line["position"])
    session = answered[len(answered) // 2]["session"]
    own = [line for line in answered if line["session"] == session]
    half = itertools.pairwise(own[len(own) // 2 :])
    one, other = next(pair for pair in half if pair[0]["process"] != pair[1]["process"])
    other["invoke_ns"] = one["invoke_ns"] + 1
    change(one, other)
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def two_answers_change_places(run: Path) -> None:
    def change(one: _Line, other: _Line) -> None:
        one["complete_ns"], other["complete_ns"] = other["complete_ns"], one["complete_ns"]

    _change(run, change)


def an_answer_is_there_before_its_entry(run: Path) -> None:
    def change(_: _Line, other: _Line) -> None:
        other["complete_ns"] = other["invoke_ns"]

    _change(run, change)


def an_answer_is_held_back(run: Path) -> None:
    def change(one: _Line, other: _Line) -> None:
        one["complete_ns"] = other["complete_ns"] + 1_500_000

    _change(run, change)


ANSWERS = tuple(
    BadRun(_SCENARIO, damage, Promise.ANSWERS_IN_ORDER, ("at position", "ms before operation id=", *says))
    for damage, says in (
        (two_answers_change_places, ()),
        (an_answer_is_there_before_its_entry, ()),
        (an_answer_is_held_back, ("1.500 ms",)),
    )
)
