"""The page for the maintainers of the system under test: each broken promise in one fixed form, the limits of the claim
first. It is Markdown, to be pasted into an issue, and has nothing that the run folder has not.
"""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.errors import UsageError
from upheaval.records import Manifest, Operation, RunFolder, TraceEvent
from upheaval.records.consensus_file import messages_of
from upheaval.report.figures import extent_of
from upheaval.report.moments import Moments
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import S

FILE_NAME: Final = "maintainers.md"
EVENTS_MOST: Final = 40
"""How many events a finding has, those nearest to its moment."""
_SCENARIO: Final = "finding.scenario"
_FREQUENT: Final = frozenset({"CommitPosition", "AppendPosition"})
_CHANGES: Final = (
    TraceKind.PROCESS_START,
    TraceKind.PROCESS_END,
    TraceKind.ELECTION_STATE,
    TraceKind.ROLE,
    TraceKind.LEADERSHIP_TERM,
    TraceKind.ERROR,
)
_ORIGIN: Final = frozenset(
    {"ts", "epoch_ms", "member", "component", "pid", "run", "event", "message", "to", "traceback"}
)
"""What an event's row has in columns of its own, or does not need."""


@dataclass(frozen=True, slots=True)
class _Event:
    ns: int
    member_id: int
    what: str
    fields: str
    count: int = 1
    """How often it came without another one in between."""


def maintainers_page(
    run: RunFolder, report: Report, again: str, launcher: str = "", jvm: str = "", own: Mapping[str, str] | None = None
) -> str:
    """`again` is the command that makes a run without a scenario once more. `launcher` is the command that started a
    member of Aeron, `jvm` its options of Java. `own` has the options of a service that replaced that of the scenario.

    Raises `UsageError` for a run that broke no promise.
    """
    broken = [finding for finding in report.worst_first if finding.verdict is Verdict.INVALID]
    if not broken:
        raise UsageError(f"{run.path} broke no promise ({report.verdict.text}): there is nothing to report")
    return _Page(run, report, again, {"launcher": launcher, "jvm": jvm}, own or {}).text(broken)


class _Page:
    def __init__(
        self, run: RunFolder, report: Report, again: str, start: Mapping[str, str], own: Mapping[str, str]
    ) -> None:
        self._run = run
        self._report = report
        self._again = again
        self._start_options = {name: value for name, value in start.items() if value}
        self._own = {name: value for name, value in own.items() if value}
        self._manifest = run.read_manifest()
        self._operations: dict[int, Operation] = {operation.id: operation for operation in run.known_operations()}
        members = [run.member(member_id) for member_id in range(self._manifest.members)]
        traces = [list(member.traced()) for member in members]
        self._faults = list(run.read_faults())
        self._start = extent_of(list(self._operations.values()), self._faults, traces)[0]
        self._events = _counted(sorted(self._all_events(traces), key=lambda event: event.ns))
        self._moments = Moments(run)

    def text(self, broken: Sequence[Finding]) -> str:
        return "\n".join(line for finding in broken for line in (*self._finding(finding), ""))

    def _finding(self, finding: Finding) -> Iterator[str]:
        yield f"# {finding.promise.sentence} [{finding.promise}]: broken"
        yield from ("", "## Limits of this claim", "", *self._limits(finding))
        yield from ("", "## What ran", "", *self._what_ran())
        yield from ("", "## Schedule", "", *self._schedule())
        yield from ("", "## What was seen", "", *self._seen(finding))
        yield from ("", "## Messages and changes of state", "", *self._around(finding))
        yield from ("", "## What was lost", "", *self._lost(finding))
        yield from ("", "## Again", "", *self._repeated())

    # --- sections ---

    def _limits(self, finding: Finding) -> Iterator[str]:
        if self._manifest.planted:
            yield f"- The members have a planted bug, {self._manifest.planted}: this is no finding."
        yield "- This is one run. How often it happens is not known from it."
        if self._manifest.runtime != "simulated":
            yield "- Real executions do not repeat: the command repeats the schedule of faults, not their interleaving."
        yield "- Times are those of one monotonic clock of the harness's machine."
        if finding.known:
            yield f"- It has the signature of a known bug: {finding.known}."
        for fault in self._faults:
            if not fault.is_proved:
                yield f"- Not proved: {fault.statement or fault.what} ({fault.evidence})."
        others = [other for other in self._report.findings if other.verdict in (Verdict.UNKNOWN, Verdict.TIMEOUT)]
        for other in others:
            yield f"- Could not be judged: {other.promise.sentence}: {other.detail}"
        yield from (f"- {gap}" for gap in self._report.gaps)

    def _what_ran(self) -> Iterator[str]:
        manifest = self._manifest
        yield from ("| | |", "|---|---|")
        for name, value in (*_described(manifest), *self._start_options.items()):
            if value:
                yield f"| {name} | {_cell(value)} |"

    def _schedule(self) -> Iterator[str]:
        if not self._faults:
            yield "No fault was injected."
            return
        yield from ("| s | fault | until s | evidence |", "|---|---|---|---|")
        for fault in sorted(self._faults, key=lambda fault: fault.inject_begin_ns):
            until = "" if fault.heal_end_ns is None else self._seconds(fault.heal_end_ns)
            what = fault.statement or f"{fault.what} {fault.where}"
            yield f"| {self._seconds(fault.inject_begin_ns)} | `{what}` | {until} | {_cell(fault.evidence)} |"

    def _seen(self, finding: Finding) -> Iterator[str]:
        yield finding.evidence
        moment = self._moments.of(finding)
        places = [*finding.about, *([] if moment is None else [str(moment)])]
        if places:
            yield from ("", ", ".join(places))
        for error in finding.errors:
            yield from ("", error.sentence(self._start))
            if error.traceback:
                yield from ("", "```text", error.traceback.rstrip(), "```")

    def _around(self, finding: Finding) -> Iterator[str]:
        moment = self._moments.of(finding)
        center = self._start + moment.ns if moment is not None else self._last_fault_ns()
        nearest = sorted(self._events, key=lambda event: abs(event.ns - center))[:EVENTS_MOST]
        shown = sorted(nearest, key=lambda event: event.ns)
        if not shown:
            yield "The run has no trace of any."
            return
        names = " and ".join(sorted(_FREQUENT))
        yield f"The {len(shown)} of {len(self._events)} nearest to {self._seconds(center)} s, without {names}."
        yield from ("", "| s | member | what | times | fields |", "|---|---|---|---|---|")
        for event in shown:
            cells = (self._seconds(event.ns), str(event.member_id), event.what, str(event.count), event.fields)
            yield f"| {' | '.join(map(_cell, cells))} |"

    def _lost(self, finding: Finding) -> Iterator[str]:
        operation = None if finding.operation is None else self._operations.get(finding.operation)
        if operation is None:
            yield "The finding is about no single operation of a client."
            return
        asked = self._seconds(operation.invoke_ns)
        ended = "never" if operation.complete_ns is None else f"{self._seconds(operation.complete_ns)} s"
        position = "" if operation.position is None else f", position {operation.position} of the log"
        yield f"Operation {operation.id}: asked at {asked} s, outcome {operation.outcome} at {ended}{position}."

    def _repeated(self) -> Iterator[str]:
        if not self._run.scenario_file.is_file():
            yield from ("```sh", self._again, "```")
            return
        manifest = self._manifest
        command = ["upheaval", "run", _SCENARIO, "--runtime", manifest.runtime]
        # An exact script has its own system.
        command += [] if manifest.is_script else ["--system", manifest.system]
        command += [] if manifest.seed is None else ["--seed", str(manifest.seed)]
        command += ["--planted", manifest.planted] if manifest.planted else []
        command += [f"--{name}={value}" for name, value in (self._start_options | self._own).items()]
        yield from ("```sh", shlex.join(command), "```", "")
        if ":" in manifest.service:
            digest = f", SHA-256 {manifest.source_digest}" if manifest.source_digest else ""
            yield from (f"It needs the code of `{manifest.service}`{digest}.", "")
        yield from (f"`{_SCENARIO}`:", "")
        yield from ("```text", self._run.scenario_file.read_text(encoding="utf-8").rstrip(), "```")

    # --- what it is made of ---

    def _last_fault_ns(self) -> int:
        return max((fault.inject_begin_ns for fault in self._faults), default=self._start)

    def _seconds(self, ns: int) -> str:
        return f"{(ns - self._start) / S:.3f}"

    def _all_events(self, traces: Sequence[Sequence[TraceEvent]]) -> Iterator[_Event]:
        for member_id, trace in enumerate(traces):
            for event in trace:
                if event.event in _CHANGES:
                    yield _Event(event.ns, member_id, event.event, _fields(event))
                elif event.event == TraceKind.SEND:
                    yield from _message(member_id, event)
        if self._run.consensus_file.exists():
            for member_id, event in messages_of(self._run):
                if event.event == TraceKind.SEND:
                    yield from _message(member_id, event)


def _counted(events: Iterable[_Event]) -> list[_Event]:
    """Each run of equal events of a member as one, at the time of the first."""
    counted: list[_Event] = []
    last: dict[int, int] = {}
    for event in events:
        number = last.get(event.member_id)
        before = None if number is None else counted[number]
        if before is not None and number is not None and (before.what, before.fields) == (event.what, event.fields):
            counted[number] = replace(before, count=before.count + 1)
        else:
            last[event.member_id] = len(counted)
            counted.append(event)
    return counted


def _message(member_id: int, event: TraceEvent) -> Iterator[_Event]:
    name = str(event.fields.get("message", ""))
    if name and name not in _FREQUENT:
        yield _Event(event.ns, member_id, f"{name} to {event.fields.get('to')}", _fields(event))


def _fields(event: TraceEvent) -> str:
    shown = {name: value for name, value in event.fields.items() if name not in _ORIGIN}
    return ", ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in shown.items()
    )


def _described(manifest: Manifest) -> list[tuple[str, str]]:
    return [
        ("system", manifest.system),
        ("SHA-256", manifest.system_sha256),
        ("before an upgrade", ", ".join(manifest.systems_before)),
        ("planted bug", manifest.planted or ""),
        ("upheaval", manifest.version),
        ("runtime", manifest.runtime),
        ("members", f"{manifest.members}, components {manifest.components}"),
        ("file.sync.level", str(manifest.sync_level)),
        ("time-outs", manifest.profile),
        ("service", ", ".join((manifest.service, *manifest.more_services))),
        ("seed", "" if manifest.seed is None else str(manifest.seed)),
        ("begun", manifest.created),
    ]


def _cell(text: str) -> str:
    """As a cell of a table may have it."""
    return text.replace("|", "\\|").replace("\n", " ")
