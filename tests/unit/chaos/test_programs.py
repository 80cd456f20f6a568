"""What other programs print is read whole, whatever bytes it has and whatever the locale of the caller is."""

import subprocess
import sys
from pathlib import Path

import pytest

from upheaval.checkers.own.interpreters import Interpreters
from upheaval_chaos.programs import run_program

NOISY = """\
import os, sys
from upheaval.checkers.own.own_process import answer_each

def answer(told):
    os.write(1, b"out \\xff\\xfe")
    os.write(2, b"wrong \\xff")
    print("ä")
    if told["fails"]:
        sys.exit(3)
    return {"read": told["read"]}

answer_each(answer)
"""


@pytest.fixture(autouse=True)
def another_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}.items():
        monkeypatch.setenv(name, value)


def test_bytes_that_are_no_text_are_escaped() -> None:
    done = run_program(["sh", "-c", r"printf 'a\377b\n\303\244\n'; printf 'c\376' >&2; exit 7"])
    assert (done.returncode, done.stdout, done.stderr) == (7, "a\\xffb\nä\n", "c\\xfe")


def test_errors_can_be_in_the_output() -> None:
    done = run_program(["sh", "-c", r"echo 1; printf '\377\n' >&2; echo 2"], is_joined=True)
    assert done.stdout == "1\n\\xff\n2\n"


def test_a_program_gets_no_input_and_the_same_locale_whoever_calls(tmp_path: Path) -> None:
    done = run_program(["sh", "-c", "cat; pwd; echo $LC_ALL $OWN"], folder=tmp_path, settings={"OWN": "yes"})
    assert done.stdout.splitlines() == [str(tmp_path), "C.UTF-8 yes"]
    done = run_program([sys.executable, "-c", r"print('ä\udcff')"])
    assert (done.returncode, done.stdout) == (0, "ä\\udcff\n")


def test_a_program_that_does_not_end_is_given_up() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_program(["sh", "-c", "exec cat /dev/zero >/dev/null"], limit_s=0.1)


@pytest.mark.parametrize(
    ("fails", "answer"), [(False, {"read": 5}), (True, "its code cannot be run here: wrong \\xff")], ids=str
)
def test_code_of_a_users_own_may_print_any_bytes(
    fails: bool, answer: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "noisy_service.py").write_text(NOISY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with Interpreters() as interpreters:
        assert interpreters.ask("noisy_service", {"source": str(tmp_path), "read": 5, "fails": fails}) == answer
