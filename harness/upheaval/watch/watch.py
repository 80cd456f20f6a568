"""Follows a run that goes on, reports what is broken as soon as its files show it, and judges it when it is over."""

import contextlib
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from upheaval.checkers.evidence.losses import losses_of
from upheaval.checkers.evidence.positions import finals_of
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import AnyPromise, Promise
from upheaval.checkers.protocol.leader_claims import traced_claims
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.errors import UsageError
from upheaval.records import FieldError, Manifest, Operation, RunFolder, TraceEvent, jsonfields, parse_operation
from upheaval.runtime_names import DOCKER
from upheaval.system import has_live_counters, last_commit_position, system_named
from upheaval.waits import wait_until
from upheaval.watch.live_answers import LiveAnswers
from upheaval.watch.live_leaders import LiveLeaders, may_claim
from upheaval.watch.live_logs import LiveLogs
from upheaval.watch.output import Output, Status
from upheaval.watch.tails import LineTail
from upheaval_chaos.file_faults import FileFaultKind
from upheaval_chaos.record import FaultRecord

JUDGED: Final = (
    Promise.ONE_LEADER_A_TERM,
    Promise.LOGS_EQUAL,
    Promise.ACKNOWLEDGED_NOT_LOST,
    Promise.LINEARIZABLE,
)
NOT_YET: Final = (
    f"judged while the run goes on: {', '.join(JUDGED)} (of {Promise.LINEARIZABLE} not the order in time; calls to "
    "services of a user's own not at all); every promise is judged when it is over"
)
IN_VOLUMES: Final = (
    "the members' logs and traces are in volumes of the engine until `upheaval down`: until then answers are counted, "
    "and judged when the run is over"
)
POWER_LOST: Final = "members lost power and nothing was synced, so logs go back: they are judged when the run is over"
UNSEALED_S: Final = 5.0
"""A run that has converged, none of whose members runs any more, and which stays unsealed, is over after so long."""
_GONE: Final = "seen while the run went on, its files do not show it any more"
INTERVAL_S: Final = 0.5
"""Between two looks at a run."""
_UNREADABLE_MAX: Final = 10


class Watch:
    """Of one run, from its beginning."""

    def __init__(self, run: RunFolder, output: Output, unsealed_s: float = UNSEALED_S) -> None:
        """Raises `UsageError` for a folder that is no run folder."""
        self._run = run
        self._output = output
        self._unsealed_s = unsealed_s
        self._manifest = run.read_manifest()
        self._manifest_ns = self._faults_ns = -1
        self._ended_s: float | None = None
        members = range(self._manifest.members)
        self._history = LineTail(run.history_file)
        self._traces = [LineTail(run.member(member_id).trace) for member_id in members]
        self._logs = LiveLogs(run, self._manifest.members)
        self._answers = LiveAnswers()
        self._leaders = LiveLeaders()
        self._faults: dict[FaultRecord, bool] = {}
        self._open_file_faults: frozenset[int] = frozenset()
        self._damaged: set[int] = set()
        """The members whose files were damaged or wiped, until they run with what they made of them."""
        self._is_powerless = False
        self._committed: Mapping[int, int] = {}
        self._unreadable = 0
        self.broken: dict[AnyPromise, Finding] = {}
        """By promise, the first finding."""

    def follow(self) -> Verdict:
        """Until the run is over; returns the verdict on it. Raises `UsageError` for one that cannot be judged."""
        self.begin()
        wait_until(self.look, timeout_s=math.inf, describe=lambda: "the run goes on", interval_s=INTERVAL_S)
        return self.end()

    def begin(self) -> None:
        """Say what is judged."""
        self._output.note(f"{self._run.path}: {NOT_YET}")
        if self._manifest.runtime == DOCKER:
            self._output.note(IN_VOLUMES)

    def look(self) -> bool:
        """Read everything that is there by now; whether the run is over."""
        is_over = self._is_over()  # asked first, so that what its end wrote is read
        self._read_faults()
        while self._read_more():
            self._output.status(self._status())
        self._output.status(self._status())
        return is_over

    def end(self) -> Verdict:
        """Judge the whole run. What was seen broken stays so, even where the files do not show it any more."""
        report = verify_run(self._run.path)
        judged = {finding.promise: finding for finding in report.findings}
        for promise, finding in self.broken.items():
            known = judged.get(promise)
            if known is None or known.verdict is not Verdict.INVALID:
                judged[promise] = replace(finding, detail=f"{finding.detail}; {_GONE}")
        report = replace(
            report,
            findings=tuple(judged.values()),
            unchecked=tuple(unchecked for unchecked in report.unchecked if unchecked.promise not in judged),
        )
        self._output.end(report, self._answers.followed)
        return report.verdict

    def _is_over(self) -> bool:
        """It is sealed; or its members came to one position, none of them runs any more, and it stays unsealed."""
        changed_ns = self._run.manifest_file.stat().st_mtime_ns
        if changed_ns != self._manifest_ns:
            self._manifest_ns, self._manifest = changed_ns, self._run.read_manifest()
        manifest = self._manifest
        if manifest.sealed is not None:
            return True
        if manifest.converge is None or manifest.runtime == DOCKER or is_running(self._run, manifest):
            self._ended_s = None
            return False
        now_s = time.monotonic()
        self._ended_s = self._ended_s or now_s
        return now_s - self._ended_s >= self._unsealed_s

    def _read_faults(self) -> None:
        try:
            changed_ns = self._run.faults_file.stat().st_mtime_ns
        except OSError:
            return
        if changed_ns == self._faults_ns:
            return
        self._faults_ns = changed_ns
        try:
            faults = list(self._run.read_faults())
        except UsageError as error:
            self._output.note(str(error))
            return
        for fault in faults:
            key, is_healed = fault.unhealed(), fault.heal_end_ns is not None
            name = fault.statement or f"{fault.what} {fault.where}"
            if key not in self._faults:
                self._output.fault(f"{name}: {fault.inject_proof or 'its effect was not looked for'}")
            if is_healed and not self._faults.get(key):
                self._output.fault(f"{name}, healed: {fault.heal_proof or 'not looked for'}")
            if fault.what in list(FileFaultKind) and self._faults.get(key) is not is_healed:
                self._damaged.update(fault.members)
            self._faults[key] = is_healed
        self._open_file_faults = frozenset(
            member_id
            for fault in faults
            if fault.what in list(FileFaultKind) and fault.heal_end_ns is None
            for member_id in fault.members
        )
        if not self._is_powerless and losses_of(self._run, self._manifest).powerless:
            self._is_powerless = True
            self._output.note(POWER_LOST)

    def _read_more(self) -> bool:
        """Some of everything; whether there was something."""
        lines = self._history.more()
        self._report(self._answers.answered(self._operations(lines)))
        has_traces = [self._read_trace(member_id) for member_id in range(len(self._traces))]
        if self._manifest.runtime == DOCKER or self._is_powerless:
            self._answers.forget()
            return bool(lines) or any(has_traces)
        self._find_mended()
        self._committed = committed_positions(self._run, self._manifest)
        has_logs = [self._read_log(member_id, position) for member_id, position in self._committed.items()]
        return bool(lines) or any(has_traces) or any(has_logs)

    def _find_mended(self) -> None:
        """Read the logs of members again that came back after a file fault. Until its process has made its counters,
        those of the one before count what was damaged since.
        """
        for member_id in sorted(self._damaged - self._open_file_faults):
            if has_live_counters(self._run.member(member_id).path):
                self._damaged.remove(member_id)
                self._logs.read_anew(member_id)
        self._logs.damaged = frozenset(self._damaged)

    def _read_trace(self, member_id: int) -> bool:
        lines = self._traces[member_id].more()
        for number, line in lines:
            if may_claim(line):
                # A member that is killed leaves half a line; what else is malformed the verdict names.
                with contextlib.suppress(FieldError, UnicodeDecodeError):
                    fields = jsonfields.parse_object(line.decode("utf-8"))
                    event = TraceEvent(number, 0, str(fields.get("event")), fields)
                    self._report(self._leaders.claimed(traced_claims(member_id, event)))
        return bool(lines)

    def _read_log(self, member_id: int, committed: int) -> bool:
        news = self._logs.more(member_id, committed)
        if news is None:
            return False
        self._report(filter(None, [news.finding]))
        self._report(self._leaders.claimed(news.claims))
        start, position = self._logs.start_position, self._logs.position
        self._report(self._answers.logged(news.entries, has_begin=start == 0))
        if position is not None:
            self._report(self._answers.read_up_to(position, start))
        return True

    def _operations(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[Operation]:
        for number, line in lines:
            try:
                yield parse_operation(jsonfields.parse_object(line.decode("utf-8")))
            except (FieldError, UnicodeDecodeError) as error:
                self._unreadable += 1
                if self._unreadable <= _UNREADABLE_MAX:
                    self._output.note(f"{self._run.history_file}:{number}: {error}")

    def _report(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self.broken.setdefault(finding.promise, finding)
            self._output.finding(finding)

    def _status(self) -> Status:
        read = {member_id: tail.position for member_id, tail in enumerate(self._logs.tails)}
        behind = sum(max(position - read[member_id], 0) for member_id, position in self._committed.items())
        return Status(
            followed=self._answers.followed,
            waiting=self._answers.waiting,
            committed=self._committed,
            read=read,
            unread_bytes=self._history.unread + behind,
            last_ns=self._answers.last_ns,
            boot_id=self._manifest.boot_id,
        )


def committed_positions(run: RunFolder, manifest: Manifest) -> dict[int, int]:
    """Up to where the log of each member is committed, as its counters say, which outlive it, and at the end of a run
    the manifest. -1 of a member of which neither is there.
    """
    positions = {member_id: last_commit_position(run.member(member_id).path) for member_id in range(manifest.members)}
    for final in finals_of(manifest):
        positions[final.member_id] = max(positions.get(final.member_id, -1), final.commit_position)
    return positions


def is_running(run: RunFolder, manifest: Manifest) -> bool:
    """Whether any member is, on this machine."""
    system = system_named(manifest.system)
    return any(
        system.read_status(run.member(member).path, member, manifest.run_id).alive for member in range(manifest.members)
    )
