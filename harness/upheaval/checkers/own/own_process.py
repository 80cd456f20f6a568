"""The process side of `interpreters`: answers each question in a forked child."""

import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final

_QUESTIONS: Final = 0
_CHUNK: Final = 1 << 16


def answer_each(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The main program: answer all questions from the input, on the descriptor that the argument names."""
    answers = int(sys.argv[1])
    waiting = select.poll()
    waiting.register(_QUESTIONS, select.POLLIN)
    while waiting.poll()[0][1] & select.POLLIN:
        _answer_in_child(answer, answers)
    os._exit(0)


def _answer_in_child(answer: Callable[[dict[str, Any]], dict[str, Any]], answers: int) -> None:
    """Each child begins with the same memory: it reads the question itself, and no name in this process refers to what
    an earlier child left.
    """
    child = os.fork()
    if not child:
        _answer_one(answer, answers)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(answers, b"\n%d\n" % status)


def _answer_one(answer: Callable[[dict[str, Any]], dict[str, Any]], answers: int) -> None:
    """Answer one question and end this process."""
    status = 1
    try:
        question = json.loads(_read_line())
        signal.alarm(int(question.pop("limit_s")) + 1)
        os.chdir(question.pop("directory"))
        sys.path.insert(0, question["source"])
        content = memoryview(json.dumps(answer(question)).encode())
        while content:
            content = content[os.write(answers, content) :]
        status = 0
    except SystemExit as error:
        print("" if isinstance(error.code, int | None) else error.code, end="", file=sys.stderr)
    except BaseException:  # noqa: BLE001 - whatever the code raises
        traceback.print_exc()
    finally:
        # Do not wait for threads of the user's code.
        sys.stderr.flush()
        os._exit(status)


def _read_line() -> bytes:
    """Read the question, and close the input to the user's code."""
    line = bytearray()
    while not line.endswith(b"\n"):
        chunk = os.read(_QUESTIONS, _CHUNK)
        if not chunk:
            raise EOFError("the question has no end")
        line += chunk
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _QUESTIONS)
    os.close(nothing)
    return bytes(line)
