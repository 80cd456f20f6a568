"""Exit statuses through a real shell: whatever its output meets, a command ends with its verdict or without success."""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from support.built_runs import good_run
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import EPILOG, make_parser
from upheaval_chaos.exit_status import CommandStatus, interrupted_status, status_table
from upheaval_chaos.options import Command

ROOT = Path(__file__).parents[3]
SCENARIO = """\
title The followers are killed, then the leader
workload rate=40 slots=1 sessions=1 keys=1
wait operations 10
inject gone kill followers
wait seconds 1
inject dead kill running
heal gone
wait leader
heal dead
"""
HISTORY = """\
{:process 0, :type :invoke, :f :read, :value nil}
{:process 0, :type :ok, :f :read, :value 5}
"""
PLANTED_SEED = "campaign --seeds 1 --planted uncommitted-entries-applied"
BROKEN = {
    "verify": "$upheaval verify bad >&$gone",
    "check": "$upheaval check bad.edn --model register >&$gone",
    "run": "$upheaval run bad.scenario --runtime simulated --planted commit-without-a-quorum --dir run >&$gone",
    "campaign": f"$upheaval {PLANTED_SEED} >&$gone",
    "replay": f"$upheaval {PLANTED_SEED} --dir seed >&$gone; $upheaval replay seed --dir again >&$gone",
}
"""A broken promise for each command that judges, with no reader at the other end of the pipe."""
ELSEWHERE = {
    "demo": "tests/integration/test_demo.py",
    "load": "tests/load/test_load.py",
    "watch": "tests/unit/harness/test_watch.py",
    "tamper": "tests/unit/harness/test_tamper.py",
    "track-record": "tests/aeron/test_track_record.py",
}
"""Commands that judge and need members, locust, Aeron, a run that goes on, or minutes."""


class Shell:
    """Bash, with run folders and histories in the folder in which it runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        read, self._gone = os.pipe()
        os.close(read)

    def run(self, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """`$gone` is the descriptor of a pipe without a reader."""
        upheaval = f"{sys.executable} -m upheaval.cli.main"
        return subprocess.run(
            ["bash", "-c", f"set -o pipefail; {script}"],
            cwd=self.folder,
            capture_output=True,
            encoding="utf-8",
            env={**os.environ, "upheaval": upheaval, "gone": str(self._gone), **variables},
            pass_fds=[self._gone],
            check=False,
        )

    def close(self) -> None:
        os.close(self._gone)


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("exit-status")
    good_run().write(folder / "göod")
    good_run(20).write(folder / "short")
    bad = good_run()
    for payloads in bad.payloads:
        payloads.append(payloads[50])
    bad.write(folder / "bad")
    (folder / os.fsdecode(b"b\xff")).symlink_to("bad")
    (folder / "bad.scenario").write_text(SCENARIO)
    (folder / "bad.edn").write_text(HISTORY)
    made = Shell(folder)
    yield made
    made.close()


def commands(parser: argparse.ArgumentParser, *words: str) -> Iterator[tuple[str, Command]]:
    """Each command that the parser knows."""
    if (command := parser.get_default("command")) is not None:
        yield " ".join(words), command
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield from commands(below, *words, word)


def judges(function: FunctionType, seen: set[object]) -> bool:
    """Whether the code of a command, or what it calls of the commands, asks for the exit status of a verdict."""
    if function in seen:
        return False
    seen.add(function)
    names = names_in(function.__code__)
    if Verdict.exit_status.fget.__name__ in names:  # type: ignore[attr-defined]
        return True
    called = (function.__globals__.get(name) for name in sorted(names))
    return any(
        judges(each, seen)
        for each in called
        if isinstance(each, FunctionType) and each.__module__.startswith(("upheaval.cli", "upheaval_pipeline.commands"))
    )


def names_in(code: CodeType) -> set[str]:
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(names_in, inner))


def test_every_command_that_judges_has_a_row() -> None:
    found = set()
    for words, command in commands(make_parser()):
        assert isinstance(command.function, FunctionType)
        if judges(command.function, set()):
            found.add(words)
    assert found == {*BROKEN, *ELSEWHERE}
    assert [path for path in ELSEWHERE.values() if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("command", BROKEN)
def test_a_broken_promise_is_the_status_when_the_reader_has_gone(shell: Shell, command: str) -> None:
    done = shell.run(BROKEN[command])
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("$upheaval verify bad | true", 1),
        ("$upheaval verify bad | head -1", 1),
        ("$upheaval verify bad | grep -q invalid", 1),
        ("$upheaval verify short >&$gone", 3),
        ("$upheaval verify göod >&$gone 2>&$gone", 0),
        ("$upheaval verify göod >&-", 0),
        ("$upheaval verify bad <&- >&- 2>&-", 1),
        ("$upheaval verify nowhere >&- 2>&-", 2),
        ("$upheaval verify bad >/dev/full 2>/dev/full", 1),
        ("$upheaval --help >&$gone", 0),
        ("$upheaval --help >&-", 0),
        ("$upheaval --hlp 2>&-", 2),
        ("$upheaval doctor >&$gone", 0),
    ],
)
def test_the_status_does_not_depend_on_the_output(shell: Shell, script: str, status: int) -> None:
    done = shell.run(script)
    assert done.returncode == status, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("command", ["verify göod", "doctor", "--help"])
def test_a_full_disk_is_one_line_and_no_success(shell: Shell, command: str) -> None:
    done = shell.run(f"$upheaval {command} >/dev/full")
    assert (done.returncode, done.stderr) == (2, "upheaval: standard output: No space left on device\n")


def test_what_only_prints_ends_with_its_reader(shell: Shell) -> None:
    member = shell.folder / "short" / "member-0"
    (member / "all.log").write_text("a line\n" * 20_000)
    done = shell.run('$upheaval logs short | head -1; echo "${PIPESTATUS[0]}"; $upheaval logs short >/dev/full')
    assert (done.returncode, done.stdout.splitlines()[1:]) == (2, ["141"]), done.stderr
    assert done.stderr == "upheaval: standard output: No space left on device\n"


@pytest.mark.parametrize(
    "variables",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}],
    ids=lambda variables: next(iter(variables)),
)
def test_letters_that_the_output_lacks_are_escaped(shell: Shell, variables: dict[str, str]) -> None:
    done = shell.run("$upheaval verify göod; $upheaval nöthing", **variables)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert re.search(r"verdict: valid, .+\n\S+/g\\\S+od$", done.stdout.strip())


def test_a_name_that_is_no_text_is_escaped(shell: Shell) -> None:
    done = shell.run("$upheaval verify $'b\\xff'")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.endswith("/b\\udcff\n")


DOCTORED = """\
import sys
from upheaval.cli import doctor
from upheaval.cli.main import main
def form():
    raise {}
doctor.form = form
sys.exit(main(["doctor"]))
"""


@pytest.mark.parametrize("error", ["KeyError", "AssertionError", "GeneratorExit", "RecursionError"])
def test_what_nothing_foresaw_is_a_defect_and_no_verdict(shell: Shell, error: str) -> None:
    done = shell.run('$python -c "$program"', program=DOCTORED.format(error), python=sys.executable)
    assert (done.returncode, done.stdout) == (70, "")
    first, second, *_ = done.stderr.splitlines()
    assert re.match(rf"upheaval: this is a defect of upheaval .*: {error}:.* please report", first)
    assert second == "Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("BrokenPipeError(32, 'Broken pipe')", "upheaval: Broken pipe"),
        ("SystemExit(0)", "upheaval: code that the command loaded ended the program, by sys.exit(0)"),
    ],
)
def test_neither_a_socket_nor_loaded_code_passes_for_success(shell: Shell, error: str, line: str) -> None:
    done = shell.run('$python -c "$program"', program=DOCTORED.format(error), python=sys.executable)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{line}\n")


def test_documents_and_help_have_the_table() -> None:
    table = ["| exit status | meaning |", "|---|---|", *(f"| {status} | {what} |" for status, what in status_table())]
    assert "\n".join(table) in (ROOT / "README.md").read_text()
    assert [tuple(re.split(r" {2,}", line.strip())) for line in EPILOG.splitlines()[2:]] == status_table()
    rows = re.findall(r"^\| (\w+) \|.*\| (\d) \|$", (ROOT / "docs/guarantees.md").read_text(), re.MULTILINE)
    assert {name: int(status) for name, status in rows} == {each.text: each.exit_status for each in Verdict}


def test_the_numbers_stay_what_they_are() -> None:
    assert [each.value for each in CommandStatus] == [0, 1, 2, 3, 70, 141]
    assert (interrupted_status(2), interrupted_status(15)) == (130, 143)
