"""The real parts of one process: loop, clock, sockets, files, trace, errors and TLS.

What every process of the node does with them is here, too. They are made in the folder of the node, which is the
working directory because paths of Unix sockets must be short. Knows no component and no agent.
"""

import os
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Final

from upheaval_node import __version__
from upheaval_node.counters import Counters
from upheaval_node.errors import TerminationError
from upheaval_node.files import layout
from upheaval_node.member import MemberPorts
from upheaval_node.member_config import ProcessConfig
from upheaval_node.ports import Agent, Connection
from upheaval_node.protocol_trace import Observer
from upheaval_node.runtime.clock import SystemClock
from upheaval_node.runtime.disk import DiskStorage
from upheaval_node.runtime.duty_cycle import DutyCycle
from upheaval_node.runtime.error_sink import ProcessErrorSink
from upheaval_node.runtime.exit_status import ExitStatus
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.mark_lock import MarkLock
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.runtime.process_tls import ProcessTls
from upheaval_node.runtime.protocol_file import ProtocolFile
from upheaval_node.runtime.tls import TlsRules
from upheaval_node.runtime.trace_logging import TraceHandler
from upheaval_node.runtime.tracer import FileTracer
from upheaval_node.service.raised import is_of_service
from upheaval_node.tls_files import TlsFiles
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS, Now

DRAIN_TIMEOUT_NS: Final = 500 * MS
"""How long an orderly end waits until its last bytes are taken, in nanoseconds."""
LAST_WORDS_NS: Final = 100 * MS
"""How long the media run after everything else has been closed, in nanoseconds."""


class _Nobody:
    """Closes connections that arrive while an address is being tested."""

    def on_connected(self, connection: Connection) -> None:
        connection.close()

    def on_data(self, data: memoryview) -> None: ...

    def on_writable(self) -> None: ...

    def on_closed(self, reason: str) -> None: ...


class ProcessParts:
    """Made once, closed once.

    `network` is for what stays on this machine (other processes of the member, the HTTP endpoint) and goes over no TLS;
    `streams` is for all else.
    """

    def __init__(
        self,
        marks: Iterable[str],
        *,
        who: str,
        name: str,
        component: str,
        member_id: int,
        config: ProcessConfig,
        tls: TlsFiles | None,
        rules: TlsRules,
    ) -> None:
        """`who` begins lines on stderr, `name` is that of the certificate; `tls` is None for a process without streams.

        Raises `AlreadyRunning` for a mark file that another process holds, `UsageError` for unusable files of TLS.
        """
        self._member_id = member_id
        self._component = component
        self._seed = config.seed
        self._locks = [MarkLock(path) for path in marks]
        os.makedirs(layout.DRIVER_DIRECTORY, exist_ok=True)
        self.loop = Loop()
        self.clock = SystemClock()
        self.network = SelectorNetwork(self.loop)
        self.storage = DiskStorage(".", self.loop)
        self.tracer = FileTracer(config.trace, member_id=member_id, component=component, run_id=config.run_id)
        self.errors = ProcessErrorSink(who, self.tracer)
        self._logging = TraceHandler(self.tracer, self.now)
        self.tls = ProcessTls(tls, name, rules, tracer=self.tracer, errors=self.errors, now=self.now)
        self.streams = self.tls.network(self.loop)

    def now(self) -> Now:
        """The time of the process's clock."""
        return self.clock.now()

    def check_address(self, address: str) -> None:
        """Fail at once if another process holds the address, instead of trying to bind it for ever.

        Raises `NetworkError`. Port 0 is always free.
        """
        if not address.endswith(":0"):
            self.network.listen(address, lambda _: _Nobody()).close()

    def ports(self, counters: Counters, observer: Observer | None) -> MemberPorts:
        """The ports of the agents."""
        self.tls.count_in(counters)
        seed = secrets.randbits(64) if self._seed is None else self._seed
        return MemberPorts(
            network=self.streams,
            storage=self.storage,
            counters=counters,
            tracer=self.tracer,
            errors=self.errors,
            random=lambda component: Random(f"{seed}/{component}"),
            pid=os.getpid(),
            now_ms=self.now().epoch_ms,
            observer=observer,
        )

    def observer(self, component: str, limit: int, members: Mapping[str, int]) -> Observer | None:
        """The observer of this process's messages; None for a trace of 0 bytes. `members` are by consensus endpoint."""
        if not limit:
            return None
        file = ProtocolFile(component, member_id=self._member_id, limit=limit)
        return Observer(self.now, os.getpid(), members, file.keep)

    # --- trace lines of every process ---

    def trace_start(self) -> None:
        """Write the first line of the trace: version and seed."""
        self.tracer.emit(self.now(), TraceKind.PROCESS_START, version=__version__, seed=self._seed)
        self._logging.begin()

    def trace_termination(self, error: TerminationError) -> None:
        """Trace the termination of the whole process, and whether a service's own code ended it."""
        self.tracer.emit(
            self.now(),
            TraceKind.TERMINATED,
            reason=str(error),
            expected=error.expected,
            by_service=_is_by_service(error),
        )

    def trace_agent_end(self, agent: Agent, error: TerminationError) -> None:
        """Trace the expected end of one agent."""
        self.tracer.emit(self.now(), TraceKind.TERMINATED, reason=str(error), expected=True, agent=type(agent).__name__)

    def trace_stall(self, now: Now, stall_ns: int, longest_ns: int) -> None:
        """Trace that the loop was held up for `stall_ns`, which explains a missed bound."""
        self.tracer.emit(now, TraceKind.LOOP_STALL, stall_ns=stall_ns, longest_stall_ns=longest_ns)

    def trace_end(self, status: ExitStatus, reason: str, longest_stall_ns: int) -> None:
        """Write the last line of the trace."""
        self._logging.end()
        self.tracer.emit(
            self.now(),
            TraceKind.PROCESS_END,
            status=int(status),
            status_name=status.name,
            reason=reason,
            longest_stall_ns=longest_stall_ns,
        )

    # --- end ---

    def run_out(self, media: Sequence[Agent]) -> None:
        """Run until the last bytes of closed agents are sent, above all ends of streams."""
        last_words = DutyCycle(self.loop, self.clock, media)
        last_words.run_until(lambda: False, time.monotonic_ns() + LAST_WORDS_NS)

    def close(self) -> None:
        """Close the parts, after everything else."""
        self.streams.drain(DRAIN_TIMEOUT_NS)
        self.network.drain(DRAIN_TIMEOUT_NS)
        self.storage.close()
        for lock in self._locks:
            lock.release()


def _is_by_service(error: BaseException | None) -> bool:
    """Whether a service's own code raised the error, or one that it followed."""
    while error is not None:
        if isinstance(error, Exception) and is_of_service(error):
            return True
        error = error.__context__
    return False
