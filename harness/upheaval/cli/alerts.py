"""`upheaval watch --alert COMMAND`: a program that is run when a promise breaks, such as one that calls a pager.

It is run once for each broken promise, with the finding as a line of JSON on its standard input. What goes wrong with
it is a line on standard error; the watch goes on, and its verdict is unchanged.
"""

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from upheaval.checkers.promises import AnyPromise
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.errors import UsageError
from upheaval.watch.output import Output, Status
from upheaval_chaos.programs import run_program

LIMIT_S: Final = 30.0
"""A program that takes longer is ended."""


def program_of(command: str) -> list[str]:
    """The words of a command, as a shell splits them. Raises `UsageError` unless the first is a program."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--alert {command!r}: {error}") from None
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"--alert {command!r}: expected a program and its arguments; {words[:1]} is not a program")
    return words


class Alerts:
    """Passes everything on to another output; implements `Output`."""

    def __init__(self, output: Output, program: Sequence[str], run: Path, limit_s: float = LIMIT_S) -> None:
        self._output = output
        self._program = program
        self._run = run
        self._limit_s = limit_s
        self._alerted: set[AnyPromise] = set()

    def finding(self, finding: Finding) -> None:
        """The first one on a promise runs the program."""
        self._output.finding(finding)
        self._alert(finding)

    def fault(self, text: str) -> None:
        """No alert."""
        self._output.fault(text)

    def note(self, text: str) -> None:
        """No alert."""
        self._output.note(text)

    def status(self, status: Status) -> None:
        """No alert."""
        self._output.status(status)

    def end(self, report: Report, followed: int) -> None:
        """Promises whose break only the whole run shows run the program, too."""
        self._output.end(report, followed)
        for finding in report.findings:
            if finding.verdict is Verdict.INVALID:
                self._alert(finding)

    def _alert(self, finding: Finding) -> None:
        if finding.promise in self._alerted:
            return
        self._alerted.add(finding.promise)
        line = object_line("finding", {"run": str(self._run.absolute()), **finding.to_fields()})
        try:
            done = run_program(self._program, text=f"{line}\n", limit_s=self._limit_s, is_joined=True)
        except subprocess.TimeoutExpired:
            self._say(finding, f"did not end within {self._limit_s:g} s")
        except OSError as error:
            self._say(finding, str(error))
        else:
            if done.returncode:
                last = done.stdout.strip().splitlines()[-1:]
                self._say(finding, f"ended with status {done.returncode}{''.join(f': {text}' for text in last)}")

    def _say(self, finding: Finding, what: str) -> None:
        command = shlex.join(self._program)
        print(f"upheaval: the alert on {finding.promise} failed: {command} {what}", file=sys.stderr, flush=True)


def object_line(kind: str, fields: Mapping[str, Any]) -> str:
    """What a watch reports, for programs: a kind, the time, and its fields."""
    return json.dumps({"kind": kind, "time": datetime.now(UTC).isoformat(timespec="milliseconds"), **fields})
