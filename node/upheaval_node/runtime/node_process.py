"""The process of a node that is no member: all its agents together behind real ports, and the orderly end of them.

`NodeProcess` is used once: made, run, closed. What the agents are, the caller's `NodePlan` says. The working directory
is the node's folder.
"""

import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from upheaval_node import __version__
from upheaval_node.errors import TerminationError
from upheaval_node.files import layout
from upheaval_node.marks import MarkKeeper
from upheaval_node.member import MemberPorts
from upheaval_node.ports import Agent, Connection
from upheaval_node.protocol_trace import Observer
from upheaval_node.runtime.clock import SkewedClock, SystemClock
from upheaval_node.runtime.disk import DiskStorage
from upheaval_node.runtime.duty_cycle import DutyCycle
from upheaval_node.runtime.error_sink import ProcessErrorSink
from upheaval_node.runtime.exit_status import ExitStatus
from upheaval_node.runtime.http_endpoint import HttpEndpoint
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.mark_lock import MarkLock
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.runtime.process import DRAIN_TIMEOUT_NS, LAST_WORDS_NS
from upheaval_node.runtime.process_tls import ProcessTls
from upheaval_node.runtime.protocol_file import ProtocolFile
from upheaval_node.runtime.shared_counters import CncFile, create_cnc
from upheaval_node.runtime.tls import TlsRules
from upheaval_node.runtime.tracer import FileTracer
from upheaval_node.tls_files import MEMBER, STANDBY, TlsFiles
from upheaval_node.types import NULL_VALUE, Now

MARKS_AND_MEDIA: Final = 2
"""How many agents, the first ones, go on for a moment after the others have been closed."""


StatusPage = Callable[[SelectorNetwork, CncFile], HttpEndpoint]
"""Opens the HTTP endpoint of a node."""


class ClosableAgent(Agent, Protocol):
    """An agent with an orderly end."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class NodePlan:
    """What a process runs, and where it shows itself.

    `build` makes the agents in the order in which they take their turns: mark files first, media driver second.
    `addresses` are where the node is going to listen; `members` are ids by consensus endpoints, for the protocol trace.
    With `tls` the streams go over TLS, and only members and standby members may dial it.
    `status_page` opens the HTTP endpoint of the node.
    """

    name: str
    marks: Sequence[str]
    addresses: Sequence[str]
    build: Callable[[MemberPorts], Sequence[ClosableAgent]]
    run_id: str = ""
    trace: str = "trace.jsonl"
    clock_file: str | None = None
    seed: int | None = None
    protocol_trace: int = 0
    members: Mapping[str, int] = field(default_factory=dict)
    tls: TlsFiles | None = None
    status_page: StatusPage | None = None


class NodeProcess:
    """Implements `programs.Program`."""

    def __init__(self, plan: NodePlan) -> None:
        self._plan = plan
        self._locks = [MarkLock(path) for path in plan.marks]
        os.makedirs(layout.DRIVER_DIRECTORY, exist_ok=True)
        self._loop = Loop()
        self._clock = SystemClock() if plan.clock_file is None else SkewedClock(plan.clock_file)
        self._network = SelectorNetwork(self._loop)
        self._storage = DiskStorage(".", self._loop)
        self._tracer = FileTracer(plan.trace, member_id=NULL_VALUE, component=plan.name, run_id=plan.run_id)
        self._errors = ProcessErrorSink(plan.name, self._tracer)
        accepted = TlsRules(accepted_elsewhere=(MEMBER, STANDBY))
        self._tls = ProcessTls(plan.tls, plan.name, accepted, tracer=self._tracer, errors=self._errors, now=self._now)
        self._stream_network = self._tls.network(self._loop)
        self._cycle = DutyCycle(self._loop, self._clock, [])
        self._agents: Sequence[ClosableAgent] = ()
        self._status_page: HttpEndpoint | None = None
        self._is_stop_requested = False

    def request_stop(self) -> None:
        """Begin an orderly end. Safe in a signal handler."""
        self._is_stop_requested = True
        self._cycle.request_stop()

    def request_reload(self) -> None:
        """Read the certificates again. Safe in a signal handler."""
        self._loop.call_from_thread(self._tls.reload)

    def run(self) -> ExitStatus:
        """Run until the end. Errors that end it are raised; an orderly end returns a status."""
        self._tracer.emit(self._now(), "process-start", version=__version__, seed=self._plan.seed)
        try:
            self._start()
            if not self._is_stop_requested:
                self._cycle.run()
        except TerminationError as error:
            self._tracer.emit(self._now(), "terminated", reason=str(error), expected=error.expected)
            if not error.expected:
                raise
        self._end_orderly()
        return ExitStatus.OK

    def record_end(self, status: ExitStatus, reason: str = "") -> None:
        """The last line of the trace."""
        stall_ns = self._cycle.longest_stall_ns
        self._tracer.emit(
            self._now(),
            "process-end",
            status=int(status),
            status_name=status.name,
            reason=reason,
            longest_stall_ns=stall_ns,
        )

    def _start(self) -> None:
        plan = self._plan
        for address in plan.addresses:
            check_address(self._network, address)
        cnc = create_cnc(layout.CNC, pid=os.getpid(), now_ms=self._now().epoch_ms, is_shared=False)
        if plan.status_page is not None:
            self._status_page = plan.status_page(self._network, cnc)
        self._agents = plan.build(self._ports(cnc))
        marks = self._agents[0]
        assert isinstance(marks, MarkKeeper)
        self._errors.attach_error_log(marks.record_error)
        self._cycle = DutyCycle(self._loop, self._clock, self._agents, on_stall=self._on_stall, on_ended=self._on_ended)
        if self._is_stop_requested:
            self._cycle.request_stop()

    def _ports(self, cnc: CncFile) -> MemberPorts:
        counters = cnc.counters(None)
        self._tls.count_in(counters)
        return MemberPorts(
            network=self._stream_network,
            storage=self._storage,
            counters=counters,
            tracer=self._tracer,
            errors=self._errors,
            seed=secrets.randbits(64) if self._plan.seed is None else self._plan.seed,
            pid=os.getpid(),
            now_ms=self._now().epoch_ms,
            observer=self._observer(),
        )

    def _observer(self) -> Observer | None:
        if not self._plan.protocol_trace:
            return None
        file = ProtocolFile("all", member_id=NULL_VALUE, limit=self._plan.protocol_trace)
        return Observer(self._now, os.getpid(), self._plan.members, file.keep)

    def _end_orderly(self) -> None:
        media, users = self._agents[:MARKS_AND_MEDIA], self._agents[MARKS_AND_MEDIA:]
        close_in_turn(users)
        # The last words of the others, an end of stream above all, are still on their way through the media.
        last_words = DutyCycle(self._loop, self._clock, media)
        last_words.run_until(lambda: False, time.monotonic_ns() + LAST_WORDS_NS)
        close_in_turn(media)
        if self._status_page is not None:
            self._status_page.close()
        self._stream_network.drain(DRAIN_TIMEOUT_NS)
        self._network.drain(DRAIN_TIMEOUT_NS)
        self._storage.close()
        for lock in self._locks:
            lock.release()

    def _on_ended(self, agent: Agent, error: TerminationError) -> None:
        self._tracer.emit(self._now(), "terminated", reason=str(error), expected=True, agent=type(agent).__name__)
        self.request_stop()

    def _on_stall(self, now: Now, stall_ns: int) -> None:
        self._tracer.emit(now, "loop-stall", stall_ns=stall_ns, longest_stall_ns=self._cycle.longest_stall_ns)

    def _now(self) -> Now:
        return self._clock.now()


def close_in_turn(agents: Sequence[ClosableAgent]) -> None:
    """End the last one first: each still has what it stands on."""
    for agent in reversed(agents):
        agent.close()


class _Nobody:
    """Answers whoever dials in the moment in which an address is tried."""

    def on_connected(self, connection: Connection) -> None:
        connection.close()

    def on_data(self, data: memoryview) -> None: ...

    def on_writable(self) -> None: ...

    def on_closed(self, reason: str) -> None: ...


def check_address(network: SelectorNetwork, address: str) -> None:
    """Fail with one line now, instead of trying for ever to bind an address that somebody else holds.

    Raises `NetworkError`. Port 0 is always free.
    """
    if not address.endswith(":0"):
        network.listen(address, lambda _: _Nobody()).close()
