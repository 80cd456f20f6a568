"""A cluster while it runs, as its page shows it: what `upheaval top` has, faults, answers, and broken promises."""

import contextlib
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from upheaval.checkers.verdict import Finding, Report
from upheaval.errors import HarnessError, UsageError
from upheaval.operations.end import end_cluster
from upheaval.records import Outcome, RunFolder, jsonfields, parse_operation
from upheaval.report.figures import percentile
from upheaval.report.logs import last_lines
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.look import Look, rows_of
from upheaval.ui.hands import Hands, name_of
from upheaval.ui.loads import PageLoad
from upheaval.watch.output import Status
from upheaval.watch.tails import LineTail
from upheaval.watch.watch import Watch
from upheaval_chaos.record import FaultRecord, shown
from upheaval_node.trace_kinds import TraceKind

LOOK_EVERY_S: Final = 0.5
_DONE_SHOWN: Final = 50
_SAMPLE: Final = 500
"""So many answers of one look are read for their latencies."""
_STALLS_SHOWN: Final = 200
_STALL: Final = f'"{TraceKind.LOOP_STALL}"'.encode()


class LiveView:
    """One cluster: several readers share one look."""

    def __init__(self, cluster: AnyCluster, *, ends_with_page: bool = False) -> None:
        """`ends_with_page`: this process has the proxies of its links."""
        self.cluster = cluster
        self.run = RunFolder(cluster.folder)
        self.hands = Hands(cluster)
        self.load = PageLoad(cluster)
        self.ends_with_page = ends_with_page
        self._answers = _Answers(self.run)
        self._traces = _Traces(self.run, cluster.config.members)
        self._broken = _Broken()
        self._watch = Watch(self.run, self._broken)
        self._lock = threading.Lock()
        self._before: Look | None = None
        self._start_ns: int | None = None
        """The first thing that was recorded before the first look, or that look: moments of the run count from here."""
        self._state: Mapping[str, Any] = {}

    def state(self) -> Mapping[str, Any]:
        """As the endpoint has it; no older than `LOOK_EVERY_S`."""
        with self._lock:
            if self._before is None or time.monotonic_ns() - self._before.ns >= LOOK_EVERY_S * 0.9e9:
                self._state = self._look()
            return self._state

    def last_lines(self) -> list[str]:
        """The last log lines of members and services."""
        return [str(line) for line in last_lines(self.run, 10)]

    @property
    def has_links(self) -> bool:
        """Whether its links have proxies or filters in this process."""
        try:
            return self.cluster.links is not None
        except UsageError:
            return False

    def end(self) -> None:
        """Stop load and cluster in good order; the run can be judged."""
        self.load.close()
        # The members come to one position only without faults. What could not be healed is among what was done.
        with contextlib.suppress(HarnessError):
            self.hands.heal_all()
        end_cluster(self.cluster, lambda _: None)

    def close(self) -> None:
        """Stop the load, heal what was to be healed after a while, and give back the handle."""
        if self.ends_with_page:
            self.end()
            return
        self.load.close()
        self.hands.close()
        self.cluster.close()

    def _look(self) -> Mapping[str, Any]:
        look = Look.at(self.cluster)
        rows, self._before = rows_of(look, self._before), look
        with contextlib.suppress(HarnessError):
            self._watch.look()
        self._traces.look()
        faults, commands = list(self.run.read_faults()), list(self.run.read_controls())
        if self._start_ns is None:
            # Traces of containers are not here before their end.
            begins = [fault.inject_begin_ns for fault in faults] + [command.begin_ns for command in commands]
            self._start_ns = min([look.ns, *begins, *filter(None, [self._traces.start_ns])])
        leader = next((status.leader_member_id for status in look.statuses if status.leader_member_id >= 0), None)
        return {
            "ns": look.ns,
            "start_ns": self._start_ns,
            "epoch_ms": int(time.time() * 1000),
            "leader": leader,
            "members": [row.to_fields() for row in rows],
            "stalls": self._traces.stalls,
            "faults": [self._fault(fault, number, look.ns) for number, fault in enumerate(faults, start=1)],
            "commands": [asdict(control) for control in commands],
            "answers": self._answers.look(look.ns),
            "broken": [{**finding.to_fields(), "when_ns": finding.when_ns} for finding in self._broken.findings],
            "load": self.load.state(),
            "doing": self.hands.doing,
            "done": [asdict(done) for done in self.hands.done[-_DONE_SHOWN:]],
        }

    def _fault(self, fault: FaultRecord, number: int, now_ns: int) -> dict[str, Any]:
        heals_at = self.hands.heals_at.get(fault.name)
        return {
            "name": name_of(fault, number),
            "what": fault.what,
            "statement": fault.statement or f"{fault.what} {fault.where}",
            "begin_ns": fault.inject_begin_ns,
            "end_ns": fault.heal_end_ns,
            "evidence": shown(fault.inject_proof, fault.heal_proof),
            "members": list(fault.members),
            "links": list(fault.links),
            "heals_in_s": None if heals_at is None else max(heals_at - now_ns, 0) / 1e9,
        }


class _Answers:
    """Answers a second and their latencies, from the history that the load writes."""

    def __init__(self, run: RunFolder) -> None:
        self._tail = LineTail(run.history_file)
        self._total = 0
        self._last_ns = 0

    def look(self, now_ns: int) -> dict[str, Any]:
        """Since the look before; latencies in nanoseconds, None without an answer."""
        lines: list[tuple[int, bytes]] = []
        while more := self._tail.more():
            lines += more
        latencies = sorted(self._latencies(lines))
        seconds = (now_ns - self._last_ns) / 1e9
        rate = len(lines) / seconds if self._last_ns else None
        self._total, self._last_ns = self._total + len(lines), now_ns
        both = (percentile(latencies, 0.5), percentile(latencies, 0.99)) if latencies else (None, None)
        return {"total": self._total, "per_s": rate, "p50_ns": both[0], "p99_ns": both[1]}

    @staticmethod
    def _latencies(lines: list[tuple[int, bytes]]) -> list[float]:
        latencies = []
        for _, line in lines[:: len(lines) // _SAMPLE + 1]:
            with contextlib.suppress(jsonfields.FieldError, UnicodeDecodeError):
                operation = parse_operation(jsonfields.parse_object(line.decode("utf-8")))
                if operation.outcome is Outcome.OK and operation.complete_ns is not None:
                    latencies.append(float(operation.complete_ns - operation.invoke_ns))
        return latencies


class _Traces:
    """When the members began, and the stalls of their loops, from what they trace."""

    def __init__(self, run: RunFolder, members: int) -> None:
        self.start_ns: int | None = None
        """The first event of any member; None before there is one."""
        self.stalls: list[list[tuple[int, int]]] = [[] for _ in range(members)]
        """By member, begin and end of the last ones."""
        self._tails = [LineTail(run.member(member_id).trace) for member_id in range(members)]

    def look(self) -> None:
        """Read what was traced since the look before."""
        for member_id, tail in enumerate(self._tails):
            while lines := tail.more():
                for number, line in lines:
                    if number == 1 or _STALL in line:
                        self._take(member_id, line)

    def _take(self, member_id: int, line: bytes) -> None:
        with contextlib.suppress(jsonfields.FieldError, UnicodeDecodeError):
            fields = jsonfields.parse_object(line.decode("utf-8"))
            ns, stall_ns = jsonfields.integer(fields, "ts"), fields.get("stall_ns")
            if self.start_ns is None or ns < self.start_ns:
                self.start_ns = ns
            if fields.get("event") == TraceKind.LOOP_STALL and isinstance(stall_ns, int):
                self.stalls[member_id] = [*self.stalls[member_id], (ns - stall_ns, ns)][-_STALLS_SHOWN:]


class _Broken:
    """What a watch found broken, each promise once. Implements `watch.output.Output`."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def finding(self, finding: Finding) -> None:
        """The first one of its promise."""
        if finding.promise not in {known.promise for known in self.findings}:
            self.findings.append(finding)

    def fault(self, text: str) -> None:
        """The page has the faults themselves."""

    def note(self, text: str) -> None:
        """Not for the page."""

    def status(self, status: Status) -> None:
        """The page has the members themselves."""

    def end(self, report: Report, followed: int) -> None:
        """The page of the run has the report."""
