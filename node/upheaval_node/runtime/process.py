"""One process of a member: the real ports, the duty cycle, and the end of the process.

`MemberProcess` is used once: made, run, closed. It knows which component it runs, but not what components do. The
working directory is the member's folder, because paths of Unix sockets must be short.
"""

import os
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from upheaval_node.cluster.members import parse_members
from upheaval_node.cluster.module_state import ModuleState
from upheaval_node.counters import CONSENSUS_MODULE_STATE, Counters
from upheaval_node.errors import NetworkError, NodeError, TerminationError, UsageError
from upheaval_node.files import layout
from upheaval_node.files.error_log import ErrorLog
from upheaval_node.marks import MarkKeeper
from upheaval_node.media.client import MediaClient
from upheaval_node.media.driver import MediaDriver
from upheaval_node.member import (
    MemberAgent,
    MemberConfig,
    MemberPorts,
    build_archive_process,
    build_consensus_process,
    build_service_process,
    build_together,
    close_agents,
    end_services,
    has_lost_service,
)
from upheaval_node.member_config import accepted_names
from upheaval_node.ports import Agent
from upheaval_node.runtime.credentials_file import read_source
from upheaval_node.runtime.doorbell import Doorbell
from upheaval_node.runtime.duty_cycle import DutyCycle
from upheaval_node.runtime.exit_status import ExitStatus
from upheaval_node.runtime.http_endpoint import HttpEndpoint
from upheaval_node.runtime.process_parts import ProcessParts
from upheaval_node.runtime.process_tls import NODES
from upheaval_node.runtime.shared_counters import (
    DRIVER_RANGE,
    MODULE_RANGE,
    CncFile,
    attach_cnc,
    create_cnc,
    service_range,
)
from upheaval_node.runtime.siblings import START_TIMEOUT_NS, ComponentLost, SiblingHub, SiblingLink
from upheaval_node.runtime.status_page import open_status_page
from upheaval_node.runtime.tls import TlsRules
from upheaval_node.service.container import ServiceContainer
from upheaval_node.service.loader import load_service
from upheaval_node.suggestions import did_you_mean
from upheaval_node.tls_files import member_name
from upheaval_node.types import MS, Now, S

ALL: Final = "all"
ARCHIVE: Final = "archive"
CONSENSUS: Final = "consensus"
SERVICE: Final = "service"

STOP_TIMEOUT_NS: Final = 5 * S
"""How long an orderly end may wait for the other processes of the member, in nanoseconds."""
BYE_GRACE_NS: Final = 2 * S
"""How long a consensus module may run after a service of its member has ended, in nanoseconds.

This applies when it does not end with its cluster. When it does, it may wait for the other members, and only then
writes down where it ended.
"""
CAUSE_TIMEOUT_NS: Final = 500 * MS
"""How long a component that cannot continue waits to learn whether another one died, in nanoseconds."""
ATTACH_POLL_NS: Final = 10 * MS


def service_id_of(component: str) -> int | None:
    """The service id in `service` (0) and `service-N`; None for other components. Raises `UsageError`."""
    if component == SERVICE:
        return 0
    if component.startswith(f"{SERVICE}-"):
        number = component.removeprefix(f"{SERVICE}-")
        if number.isascii() and number.isdigit():
            return int(number)
        raise UsageError(f"unknown component {component!r}: services are service-0, service-1, ...")
    return None


class MemberProcess:
    """The process of one component, or of all of them."""

    def __init__(self, config: MemberConfig, component: str) -> None:
        self._config = config
        self._service_id = service_id_of(component)
        if self._service_id is None and component not in (ALL, ARCHIVE, CONSENSUS):
            hint = did_you_mean(component, (ALL, ARCHIVE, CONSENSUS, SERVICE))
            raise UsageError(
                f"unknown component {component!r}: use all, archive, consensus, service or service-N{hint}"
            )
        if self._service_id is not None and self._service_id >= len(config.services):
            raise UsageError(f"{component!r}: this member has {len(config.services)} services")
        self._component = f"{SERVICE}-{self._service_id}" if self._service_id is not None else component
        parts = self._parts = ProcessParts(
            self._mark_paths(),
            who=f"member {config.member_id} {self._component}",
            name=member_name(config.member_id),
            component=self._component,
            member_id=config.member_id,
            config=config,
            tls=config.tls if self._component in (ALL, ARCHIVE) else None,
            rules=TlsRules(accepted_names(config.endpoints), NODES),
        )
        self._reloads: list[Callable[[], None]] = []
        self._cycle = DutyCycle(parts.loop, parts.clock, [])
        self._agents: Sequence[MemberAgent] = ()
        self._counters: Counters | None = None
        self._hub: SiblingHub | None = None
        self._link: SiblingLink | None = None
        self._bell: Doorbell | None = None
        self._driver_errors: ErrorLog | None = None
        self._status_page: HttpEndpoint | None = None
        self._is_stop_requested = False
        self._lost: str | None = None

    def request_stop(self) -> None:
        """Begin an orderly end. Safe in a signal handler."""
        self._is_stop_requested = True
        self._cycle.request_stop()

    def request_reload(self) -> None:
        """Read certificates and credentials again. Safe in a signal handler."""
        self._parts.loop.call_from_thread(lambda: self._parts.tls.reload(self._reloads))

    def run(self) -> ExitStatus:
        """Run the component until its end. Errors that end it are raised; an orderly end returns a status."""
        self._parts.trace_start()
        try:
            self._start()
            if not self._is_stop_requested:
                self._cycle.run()
            self._raise_if_lost()
        except TerminationError as error:
            self._parts.trace_termination(error)
            if not error.expected:
                end_services(self._agents)
                self._look_for_lost_component()
                raise
        except NodeError:
            end_services(self._agents)
            raise
        return self._end_orderly()

    def _look_for_lost_component(self) -> None:
        """A component may fail before the connections show that another one is gone: report that as the cause."""
        deadline_ns = time.monotonic_ns() + CAUSE_TIMEOUT_NS
        while self._component != ALL and self._lost is None and time.monotonic_ns() < deadline_ns:
            self._parts.loop.run_once((deadline_ns - time.monotonic_ns()) / S)
        self._raise_if_lost()

    def _on_ended(self, agent: Agent, error: TerminationError) -> None:
        """A service ends before its consensus module, which still has to finish. Any other end is the end of the
        process.
        """
        self._parts.trace_agent_end(agent, error)
        if self._component == ALL and isinstance(agent, ServiceContainer):
            if has_lost_service(self._agents):
                raise ComponentLost(f"service {agent.service_id} has ended: {error}", expected=False)
            self._stop_after(self._config.settings.cluster.timeouts.termination_ns + BYE_GRACE_NS)
        else:
            self.request_stop()

    def _stop_after(self, delay_ns: int) -> None:
        self._parts.loop.call_at(time.monotonic_ns() + delay_ns, self.request_stop)

    def record_end(self, status: ExitStatus, reason: str = "") -> None:
        """Write the last line of the trace."""
        self._parts.trace_end(status, reason, self._cycle.longest_stall_ns)

    # --- start ---

    def _start(self) -> None:
        config, service_id = self._config, self._service_id
        if self._component in (ALL, ARCHIVE):
            self._check_addresses()
            is_shared = self._component == ARCHIVE
            cnc = create_cnc(layout.CNC, pid=os.getpid(), now_ms=self._parts.now().epoch_ms, is_shared=is_shared)
            self._open_status_page(cnc)
            self._driver_errors = cnc.error_log() if is_shared else None
            if not is_shared:
                ports = self._ports(cnc, None)
                self._agents = build_together(config, ports, [load_service(name) for name in config.services])
                self._serve_tools()
            else:
                ports = self._ports(cnc, DRIVER_RANGE)
                self._counters = ports.counters
                self._agents = build_archive_process(config, ports)
                self._hub = self._make_hub()
        else:
            # A service that cannot be loaded should be known before anything waits for it.
            service = None if service_id is None else load_service(config.services[service_id])
            self._link = self._make_link()
            cnc = self._attach(self._link)
            if service is None or service_id is None:
                ports = self._ports(cnc, MODULE_RANGE)
                self._agents = build_consensus_process(config, ports, self._media_client(ports))
            else:
                ports = self._ports(cnc, service_range(service_id))
                self._agents = build_service_process(config, ports, self._media_client(ports), service, service_id)
        self._start_cycle(ports)

    def _serve_tools(self) -> None:
        """Let a tool query the module through the media driver. A member runs as well without it."""
        driver = self._agents[1]
        assert isinstance(driver, MediaDriver)
        try:
            driver.serve_clients(f"unix:{layout.DRIVER_SOCKET}")
        except NetworkError as error:
            self._parts.errors.report(self._parts.now(), "tools", str(error))

    def _start_cycle(self, ports: MemberPorts) -> None:
        marks = self._agents[0]
        assert isinstance(marks, MarkKeeper)
        self._parts.errors.attach_error_log(self._recorder(marks))
        after_work = None
        if self._component != ALL:
            after_work = self._bell_of(ports)
        self._cycle = DutyCycle(
            self._parts.loop,
            self._parts.clock,
            self._agents,
            after_work=after_work,
            on_stall=self._on_stall,
            on_ended=self._on_ended,
            heeds_bells=self._component == ALL,
        )
        if self._is_stop_requested or self._lost is not None:
            self._cycle.request_stop()

    def _recorder(self, marks: MarkKeeper) -> Callable[[Now, str], None]:
        """Into the mark file; a media driver without a module beside it also has a log of its own, which tools read."""
        log = self._driver_errors
        if log is None:
            return marks.record_error

        def record(now: Now, text: str) -> None:
            marks.record_error(now, text)
            log.record(now.epoch_ms, text)

        return record

    def _bell_of(self, ports: MemberPorts) -> Callable[[], None]:
        components = [ARCHIVE, CONSENSUS, *(f"{SERVICE}-{index}" for index in range(len(self._config.services)))]
        paths = {name: f"{layout.DRIVER_DIRECTORY}/bell-{name}" for name in components}
        others = [path for name, path in paths.items() if name != self._component]
        bell = self._bell = Doorbell(self._parts.loop, paths[self._component], others)
        counters = ports.counters
        last_changes = counters.changes

        def ring_if_changed() -> None:
            nonlocal last_changes
            if counters.changes != last_changes:
                last_changes = counters.changes
                bell.ring_others()

        bell.ring_others()
        return ring_if_changed

    def _check_addresses(self) -> None:
        endpoints = self._config.endpoints
        for address in (endpoints.ingress, endpoints.consensus, endpoints.log, endpoints.catchup, endpoints.archive):
            self._parts.check_address(address)

    def _open_status_page(self, cnc: CncFile) -> None:
        config = self._config
        address = config.metrics_address
        if address is not None:
            counters = cnc.counters((0, 0))
            self._status_page = open_status_page(self._parts.network, address, counters, cnc.header, config.member_id)

    def _ports(self, cnc: CncFile, id_range: tuple[int, int] | None) -> MemberPorts:
        config = self._config
        members = {member.endpoints.consensus: member.id for member in parse_members(config.members).values()}
        observer = self._parts.observer(self._component, config.protocol_trace, members)
        return replace(
            self._parts.ports(cnc.counters(id_range), observer),
            nonces=secrets.SystemRandom(),
            read_credentials=read_source,
            reloads=self._reloads,
        )

    def _media_client(self, ports: MemberPorts) -> MediaClient:
        return MediaClient(
            self._parts.network,
            f"unix:{layout.DRIVER_SOCKET}",
            self._config.settings.media,
            ports.random("media-client"),
        )

    def _attach(self, link: SiblingLink) -> CncFile:
        """The counters of the archive process, once both would hear of each other's death: nothing is done before."""
        deadline_ns = time.monotonic_ns() + START_TIMEOUT_NS
        while not self._is_stop_requested:
            self._raise_if_lost()
            cnc = attach_cnc(layout.CNC) if link.is_connected else None
            if cnc is not None:
                return cnc
            if time.monotonic_ns() >= deadline_ns:
                raise ComponentLost("the archive process did not appear", expected=False)
            self._parts.loop.run_once(ATTACH_POLL_NS / S)
        raise TerminationError("ordered to stop before the archive process appeared", expected=True)

    # --- life together with the other processes of the member ---

    def _make_hub(self) -> SiblingHub:
        components = [CONSENSUS, *(f"{SERVICE}-{index}" for index in range(len(self._config.services)))]
        return SiblingHub(self._parts.network, self._parts.loop, components, on_lost=self._on_lost, on_bye=self._on_bye)

    def _make_link(self) -> SiblingLink:
        return SiblingLink(
            self._parts.network,
            self._parts.loop,
            self._component,
            on_lost=lambda: self._on_lost(ARCHIVE),
            on_stop=self.request_stop,
        )

    def _on_bye(self, component: str) -> None:
        """The consensus module ends after its services: give it time."""
        if component == CONSENSUS:
            self.request_stop()
        else:
            state = None if self._counters is None else self._counters.find(CONSENSUS_MODULE_STATE)
            ends_with_cluster = state is not None and state.get() == ModuleState.TERMINATING
            timeout_ns = self._config.settings.cluster.timeouts.termination_ns if ends_with_cluster else 0
            self._stop_after(timeout_ns + BYE_GRACE_NS)

    def _on_lost(self, component: str) -> None:
        if self._lost is None and not self._is_stop_requested:
            self._lost = component
        self._cycle.request_stop()

    def _raise_if_lost(self) -> None:
        if self._lost is not None:
            raise ComponentLost(f"the {self._lost} process of this member is gone", expected=False)

    # --- end ---

    def _end_orderly(self) -> ExitStatus:
        status = ExitStatus.OK
        if self._hub is not None:
            status = self._wait_for_others(self._hub)
        marks_and_media, components = self._agents[:2], self._agents[2:]
        close_agents(components, self._parts.now())
        self._parts.run_out(marks_and_media)
        close_agents(marks_and_media, self._parts.now())
        if self._link is not None:
            self._link.close(orderly=True)
        if self._hub is not None:
            self._hub.close()
        if self._bell is not None:
            self._bell.close()
        if self._status_page is not None:
            self._status_page.close()
        self._parts.close()
        return status

    def _wait_for_others(self, hub: SiblingHub) -> ExitStatus:
        """The other processes use our media driver, so it runs until they have ended."""
        hub.stop_others()
        deadline_ns = time.monotonic_ns() + STOP_TIMEOUT_NS
        return ExitStatus.OK if self._cycle.run_until(lambda: hub.is_alone, deadline_ns) else ExitStatus.STOP_TIMED_OUT

    def _on_stall(self, now: Now, stall_ns: int) -> None:
        self._parts.trace_stall(now, stall_ns, self._cycle.longest_stall_ns)

    def _mark_paths(self) -> list[str]:
        service_marks = [layout.service_mark(index) for index in range(len(self._config.services))]
        if self._component == ALL:
            return [layout.CLUSTER_MARK, layout.ARCHIVE_MARK, *service_marks]
        if self._service_id is not None:
            return [service_marks[self._service_id]]
        return [layout.ARCHIVE_MARK if self._component == ARCHIVE else layout.CLUSTER_MARK]
