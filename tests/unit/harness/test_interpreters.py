"""Code of a user's own is loaded anew for every question, in children of interpreters that are started once."""

import os
import signal
from pathlib import Path

import pytest

from upheaval.checkers.own.causes import Cause
from upheaval.checkers.own.interpreters import Interpreters, shared_interpreters

PROGRAM = """\
import os, sys, threading
from upheaval.checkers.own.own_process import answer_each

asked = []

def answer(question):
    asked.append(question["do"])
    match question["do"]:
        case "wait":
            threading.Event().wait()
        case "exit":
            sys.exit("no more of this")
        case "kill":
            os.kill(os.getpid(), 9)
        case "close":
            os.closerange(3, 100)
        case "list":
            return ["not", "an", "object"]
    return {
        "parent": os.getppid(),
        "asked": asked,
        "address": id(object()),
        "hash": hash("text"),
        "folder": os.getcwd(),
        "input": sys.stdin.read(),
        "long": "x" * question.get("length", 0),
    }

answer_each(answer)
"""


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "asked_program.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)


def ask(interpreters: Interpreters, do: str, *changed: Cause, limit_s: float = 120, **more: object) -> object:
    question = {"source": str(Path.cwd()), "do": do, **more}
    return interpreters.ask("asked_program", question, changed, limit_s)


def answered(interpreters: Interpreters, do: str, *changed: Cause, **more: object) -> dict[str, object]:
    answer = ask(interpreters, do, *changed, **more)
    assert isinstance(answer, dict), answer
    return answer


def test_questions_share_an_interpreter_and_nothing_else() -> None:
    with Interpreters() as interpreters:
        first, second = (answered(interpreters, do) for do in ("one thing", "another"))
    assert first["parent"] == second["parent"] != os.getpid()
    assert (first["asked"], second["asked"]) == (["one thing"], ["another"])
    assert first["address"] == second["address"]


def test_what_a_process_is_started_with_needs_another_interpreter_and_what_a_child_changes_does_not() -> None:
    with Interpreters() as interpreters:
        usual, seeded = answered(interpreters, "ask"), answered(interpreters, "ask", Cause.HASH_SEED)
        elsewhere = answered(interpreters, "ask", Cause.DIRECTORY)
    assert usual["hash"] != seeded["hash"]
    assert usual["parent"] != seeded["parent"]
    assert usual["parent"] == elsewhere["parent"]
    assert usual["folder"] == str(Path.cwd()) != elsewhere["folder"]
    assert not Path(str(elsewhere["folder"])).exists()


@pytest.mark.parametrize(
    ("do", "why"),
    [
        ("exit", "its code cannot be run here: no more of this"),
        ("kill", f"its code cannot be run here: status {-signal.SIGKILL}"),
        ("close", "its code cannot be run here: OSError: [Errno 9] Bad file descriptor"),
        ("list", "its code cannot be run here: it printed ['not', 'an', 'object']"),
    ],
)
def test_a_question_without_an_answer_says_why_and_the_next_one_is_answered(do: str, why: str) -> None:
    with Interpreters() as interpreters:
        assert ask(interpreters, do) == why
        assert answered(interpreters, "ask")["asked"] == ["ask"]


def test_code_that_does_not_end_is_given_up() -> None:
    with Interpreters() as interpreters:
        assert ask(interpreters, "wait", limit_s=0.5) == "its code did not end within 0.5 s"


def test_an_interpreter_that_reads_no_question_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "program_that_waits.py").write_text("import threading\nthreading.Event().wait()\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    question = {"source": str(tmp_path), "text": "y" * 1_000_000}
    with Interpreters() as interpreters:
        answer = interpreters.ask("program_that_waits", question, timeout_s=0.5)
    assert answer == "its code did not end within 0.5 s"


def test_a_question_and_its_answer_may_be_long_and_code_reads_no_question() -> None:
    with Interpreters() as interpreters:
        answer = answered(interpreters, "ask", length=1_000_000, text="y" * 1_000_000)
    assert (answer["long"], answer["input"]) == ("x" * 1_000_000, "")


def test_interpreters_end_with_the_outermost_block_that_shares_them() -> None:
    with shared_interpreters() as interpreters:
        parent = answered(interpreters, "ask")["parent"]
        with shared_interpreters() as same:
            assert answered(same, "ask")["parent"] == parent
        assert answered(interpreters, "ask")["parent"] == parent
    with pytest.raises(ProcessLookupError):
        os.kill(int(str(parent)), 0)
