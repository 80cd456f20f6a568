"""The process of a node that is no member: all its agents together with real ports, and the orderly end of them.

`NodeProcess` is used once: made, run, closed. The caller's `NodePlan` has the agents. The working directory is
the node's folder.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from upheaval_node.errors import TerminationError
from upheaval_node.files import layout
from upheaval_node.marks import MarkKeeper
from upheaval_node.member import MemberPorts
from upheaval_node.member_config import ProcessConfig
from upheaval_node.ports import Agent
from upheaval_node.runtime.duty_cycle import DutyCycle
from upheaval_node.runtime.exit_status import ExitStatus
from upheaval_node.runtime.http_endpoint import HttpEndpoint
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.runtime.process_parts import ProcessParts
from upheaval_node.runtime.shared_counters import CncFile, create_cnc
from upheaval_node.runtime.tls import TlsRules
from upheaval_node.tls_files import MEMBER, STANDBY
from upheaval_node.types import NULL_VALUE, Now

MARKS_AND_MEDIA: Final = 2
"""The number of agents, from the first, that run on for a moment after the others have been closed."""


StatusPage = Callable[[SelectorNetwork, CncFile], HttpEndpoint]
"""Opens the HTTP endpoint of a node."""


class ClosableAgent(Agent, Protocol):
    """An agent with an orderly end."""

    def close(self) -> None:
        """Close in order, without blocking."""


Build = Callable[[MemberPorts], Sequence[ClosableAgent]]
"""Makes the agents in the order of their duty cycles: mark files first, media driver second."""


@dataclass(frozen=True)
class NodePlan:
    """What a process runs, and where it shows itself.

    `addresses` are where the node is going to listen. With `tls` the streams go over TLS, and only members and standby
    members may dial it.
    `status_page` opens the HTTP endpoint of the node.
    """

    name: str
    marks: Sequence[str]
    addresses: Sequence[str]
    build: Build
    config: ProcessConfig
    status_page: StatusPage | None = None


class NodeProcess:
    """Implements `programs.Program`."""

    def __init__(self, plan: NodePlan) -> None:
        self._plan = plan
        self._parts = ProcessParts(
            plan.marks,
            who=plan.name,
            name=plan.name,
            component=plan.name,
            member_id=NULL_VALUE,
            config=plan.config,
            tls=plan.config.tls,
            rules=TlsRules(accepted_elsewhere=(MEMBER, STANDBY)),
        )
        self._cycle = DutyCycle(self._parts.loop, self._parts.clock, [])
        self._agents: Sequence[ClosableAgent] = ()
        self._status_page: HttpEndpoint | None = None
        self._is_stop_requested = False

    def request_stop(self) -> None:
        """Begin an orderly end. Safe in a signal handler."""
        self._is_stop_requested = True
        self._cycle.request_stop()

    def request_reload(self) -> None:
        """Read the certificates again. Safe in a signal handler."""
        self._parts.loop.call_from_thread(self._parts.tls.reload)

    def run(self) -> ExitStatus:
        """Run until the end. Errors that end it are raised; an orderly end returns a status."""
        self._parts.trace_start()
        try:
            self._start()
            if not self._is_stop_requested:
                self._cycle.run()
        except TerminationError as error:
            self._parts.trace_termination(error)
            if not error.expected:
                raise
        self._end_orderly()
        return ExitStatus.OK

    def record_end(self, status: ExitStatus, reason: str = "") -> None:
        """The last line of the trace."""
        self._parts.trace_end(status, reason, self._cycle.longest_stall_ns)

    def _start(self) -> None:
        plan, parts = self._plan, self._parts
        for address in plan.addresses:
            parts.check_address(address)
        cnc = create_cnc(layout.CNC, pid=os.getpid(), now_ms=parts.now().epoch_ms, is_shared=False)
        if plan.status_page is not None:
            self._status_page = plan.status_page(parts.network, cnc)
        observer = parts.observer("all", plan.config.protocol_trace, {})
        self._agents = plan.build(parts.ports(cnc.counters(None), observer))
        marks = self._agents[0]
        assert isinstance(marks, MarkKeeper)
        parts.errors.attach_error_log(marks.record_error)
        self._cycle = DutyCycle(parts.loop, parts.clock, self._agents, on_stall=self._on_stall, on_ended=self._on_ended)
        if self._is_stop_requested:
            self._cycle.request_stop()

    def _end_orderly(self) -> None:
        media, users = self._agents[:MARKS_AND_MEDIA], self._agents[MARKS_AND_MEDIA:]
        close_in_turn(users)
        self._parts.run_out(media)
        close_in_turn(media)
        if self._status_page is not None:
            self._status_page.close()
        self._parts.close()

    def _on_ended(self, agent: Agent, error: TerminationError) -> None:
        self._parts.trace_agent_end(agent, error)
        self.request_stop()

    def _on_stall(self, now: Now, stall_ns: int) -> None:
        self._parts.trace_stall(now, stall_ns, self._cycle.longest_stall_ns)


def close_in_turn(agents: Sequence[ClosableAgent]) -> None:
    """Close the last one first, so that each still has the agents that it depends on."""
    for agent in reversed(agents):
        agent.close()
