"""`upheaval watch`: what is broken so far of a run that goes on, and the verdict when it is over.

Findings, faults and notes are lines with the time, or objects of JSON; how far it is is drawn over in place.
"""

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from upheaval.checkers.verdict import Finding, Report
from upheaval.cli.alerts import Alerts, object_line, program_of
from upheaval.cli.judge_commands import WatchOptions
from upheaval.cli.progress import ProgressLine
from upheaval.cli.verify import print_report
from upheaval.records import RunFolder
from upheaval.watch.output import Output, Status
from upheaval.watch.watch import Watch

_STATUS_EVERY_S: Final = 1.0
_LINES_EVERY_S: Final = 30.0


def watch(options: WatchOptions) -> int:
    """Follow a run until it is over; returns the exit status."""
    output: Output = Objects() if options.json else Lines()
    if options.alert is not None:
        output = Alerts(output, program_of(options.alert), options.dir)
    return Watch(RunFolder(options.dir), output).follow().exit_status


class Lines:
    """For people."""

    def __init__(self) -> None:
        self._line = ProgressLine(_LINES_EVERY_S)

    def finding(self, finding: Finding) -> None:
        """Its promise by the id, which says how it is looked up, and the evidence."""
        subject = f" ({', '.join(finding.about)})" if finding.about else ""
        self._say(f"{finding.verdict.text}: {finding.promise}: {finding.detail}{subject}")

    def fault(self, text: str) -> None:
        """On a new line."""
        self._say(f"fault: {text}")

    def note(self, text: str) -> None:
        """On a new line."""
        self._say(text)

    def status(self, status: Status) -> None:
        """In place, where standard error is a terminal."""
        self._line.show(str(status))

    def end(self, report: Report, followed: int) -> None:
        """The report, as `upheaval verify` prints it."""
        self._say(f"the run is over, {followed} operations followed")
        print_report(report)

    def _say(self, text: str) -> None:
        self._line.end()
        print(f"{datetime.now():%H:%M:%S.%f}"[:-3], text, flush=True)  # noqa: DTZ005 - the reader's own time


class Objects:
    """For programs."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def finding(self, finding: Finding) -> None:
        """As `upheaval verify --json` has it."""
        self._say("finding", finding.to_fields())

    def fault(self, text: str) -> None:
        """Pass it on unchanged."""
        self._say("fault", {"text": text})

    def note(self, text: str) -> None:
        """Pass it on unchanged."""
        self._say("note", {"text": text})

    def status(self, status: Status) -> None:
        """Once a second."""
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _STATUS_EVERY_S
            self._say("status", status.to_fields())

    def end(self, report: Report, followed: int) -> None:
        """The last object: the report, as `upheaval verify --json` has it."""
        self._say("end", {**report.to_fields(), "followed": followed})

    def _say(self, kind: str, fields: Mapping[str, Any]) -> None:
        print(object_line(kind, fields), flush=True)
