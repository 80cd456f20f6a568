"""What a member *is*, once for each system under test: its ports, how it is configured, started, asked and checked.

Runtimes know members only through this, whether they put them into processes or into containers. Ours is the first
system; another one is another object of the same shape, which `systems` finds by its name.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final, Protocol, runtime_checkable

from upheaval.errors import UsageError
from upheaval.records import OWN_SYSTEM, TOGETHER, FieldError, Json, MemberFolder, jsonfields
from upheaval.runtime_names import LIVE_RUNTIMES, RUNTIMES
from upheaval.system.clients import ClientNeeds, Clients, NodeClients, NodeWaitingClients, WaitingClients, WayIn
from upheaval.system.cluster_spec import ClusterSpec
from upheaval.system.companions import Companions, NodeCompanions
from upheaval.system.member_control import ControlStatus, read_control
from upheaval.system.member_status import read_member_status
from upheaval.system.status import MemberStatus
from upheaval_chaos.host_faults import LONGEST_JUMP_MS
from upheaval_chaos.pings import PingText, channel_of_ping, ping_text
from upheaval_chaos.planted.catalogue import bug_named
from upheaval_chaos.target import CHANNELS, INGRESS, DatagramFaultKind, LinkFaultKind
from upheaval_node import __version__
from upheaval_node.client.driving import ClientOptions
from upheaval_node.compiled import VARIABLE
from upheaval_node.errors import NodeError
from upheaval_node.files import layout
from upheaval_node.runtime import control
from upheaval_node.runtime.exit_status import ExitStatus
from upheaval_node.service.loader import load_service
from upheaval_node.settings import MediaSettings, profile_settings
from upheaval_node.tool.__main__ import Options, execute
from upheaval_node.tool.answer import Answer
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS

SOURCE_FOLDER: Final = "source"
"""Where in a member's folder the code of a user's own service is put."""


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """One member of a cluster, or one component of it, as a runtime wants it.

    `endpoints` are those of all members in order of their ids, each in the order of the system's `ports`; `metrics` is
    where this one shows its metrics. `component` is `all` for a whole member. `python_path` is where it finds the code
    of its service. `names` says where the member dials for an endpoint of another one. `tls` are the files of its
    certificate, empty without TLS; `credentials` is its copy of the credentials file, empty for everyone.
    """

    spec: ClusterSpec
    member_id: int
    endpoints: Sequence[Sequence[str]]
    metrics: str
    folder: str
    component: str = "all"
    python_path: Sequence[str] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    tls: Mapping[str, str] = field(default_factory=dict)
    credentials: str = ""


class SystemUnderTest(Protocol):
    """What a runtime has to know of a system."""

    @property
    def text(self) -> str:
        """Its name, and its version where it has several, as `system_named` takes it."""

    @property
    def digest(self) -> str:
        """The SHA-256 of the file that its members run; empty where they run what is installed here."""

    @property
    def note(self) -> str:
        """A sentence for the user who starts a cluster of it; empty when there is nothing to say."""

    @property
    def runtimes(self) -> Sequence[str]:
        """Where it runs."""

    @property
    def split_runtimes(self) -> Sequence[str]:
        """Where the components of a member can be apart."""

    @property
    def channels(self) -> Sequence[str]:
        """What each of the ports is for, by the names of `upheaval_chaos.target`."""

    @property
    def has_streams(self) -> bool:
        """Whether its members speak byte streams, as our proxies and clients do."""

    @property
    def longest_clock_jump_ms(self) -> int:
        """By how much the wall clock of a member may jump, ahead or back, without an end of the member."""

    @property
    def companions(self) -> Companions:
        """The nodes beside its members."""

    @property
    def expected_exit_statuses(self) -> Sequence[int]:
        """Of a component that ended because another one of its member had."""

    def check(self, spec: ClusterSpec) -> None:
        """Raises `UsageError` for what could never start. A service that is not on this machine is not looked at."""

    def clients(self, needs: ClientNeeds) -> Clients:
        """What the sessions of a load are made of. Raises `HarnessError` when that cannot be had."""

    def waiting_clients(self, way: WayIn, options: ClientOptions) -> WaitingClients:
        """Clients whose calls wait, with those options of theirs that are for every system: name, certificate,
        credentials. Raises `HarnessError` when they cannot be had.
        """

    def ping(self, channels: Sequence[str], extra_length: int = 0) -> tuple[str, PingText]:
        """On which of the channels that a link consists of to try it, and what to say there to a member, so that it
        answers and is not disturbed.
        """

    def traced_exit_status(self, member: MemberFolder, pid: int) -> int | None:
        """With which status a process ended, as its trace in the run folder has it; None when it does not say."""

    def upgraded_to(self, text: str) -> str:
        """The text of the system that members are after an upgrade to what `text` names, which is made ready.

        Raises `UsageError` for another system and for an older version, and `HarnessError` when it cannot be had.
        """

    def with_member(self, member_id: int, text: str, members: int) -> str:
        """The text of this system in a cluster of that size, of which one member is of the system `text`."""

    def require_app_version(self) -> None:
        """Raises `UsageError` where the harness does not set the application's version of members."""

    # --- in processes ---

    @property
    def configuration_file(self) -> str:
        """The name of a member's configuration, in its folder."""

    def configuration_text(self, plan: MemberPlan) -> str:
        """What that file holds."""

    def start_delay_s(self, folder: Path, component: str) -> float:
        """How many seconds a member, or that component of one, that is down must stay so before it can start."""

    def command(self, plan: MemberPlan, configuration: Path) -> Sequence[str]:
        """What runs a member, or one component of it, on this machine."""

    def clean_up(self, folder: Path) -> None:
        """Remove what a member that has ended leaves and that is of no use to anybody."""

    def read_status(self, folder: Path, member_id: int, run_id: str) -> MemberStatus:
        """The status of a member whose files are on this machine; `leader_member_id` is left to the runtime."""

    def read_control(self, folder: Path) -> ControlStatus:
        """What the consensus module of a member says whose files are on this machine, alive or not."""

    def give_command(self, folder: Path, command: str) -> str:
        """Let the member take an admin command of an operator; why it did not, empty when it has."""

    def tool(self, options: Options) -> Answer:
        """Carry out a command of `upheaval tool` on a node whose files are on this machine. Raises `NodeError`, and
        `HarnessError` when what it needs for that cannot be had.
        """


@runtime_checkable
class SystemInContainers(SystemUnderTest, Protocol):
    """What the docker runtime has to know of a system besides."""

    @property
    def ports(self) -> Sequence[int]:
        """What a member listens on in a container, ingress first."""

    @property
    def metrics_port(self) -> int:
        """Where a member in a container shows its metrics."""

    @property
    def shared_memory(self) -> str:
        """How large /dev/shm of a container is to be, as the engine takes it; empty for its default."""

    @property
    def image(self) -> str:
        """The tag of the image."""

    @property
    def image_labels(self) -> Mapping[str, str]:
        """What images of its members are labelled with, and images built on ours, too."""

    @property
    def test_image(self) -> str:
        """The tag of the image with a test build, which a bug can be planted in."""

    @property
    def folder(self) -> PurePosixPath:
        """Where a member keeps everything that the run folder shall have: mounted as a volume, collected at the end."""

    @property
    def status_command(self) -> Sequence[str]:
        """A command inside the container that prints what `parse_status` reads, for each line of its standard input."""

    @property
    def tool_command(self) -> Sequence[str]:
        """A command inside the container that does, with `--json`, what `tool` does here."""

    def command_line(self, command: str | None) -> Sequence[str]:
        """A command inside the container that gives an admin command, or none, for `parse_control` to read."""

    @property
    def recording_log(self) -> PurePosixPath:
        """The file by which `control_of_files` knows a member that is down."""

    def environment(self, plan: MemberPlan) -> Mapping[str, str]:
        """The configuration of a member."""

    def arguments(self, plan: MemberPlan) -> Sequence[str]:
        """What the image's entry point receives."""

    def parse_status(self, member_id: int, output: str) -> MemberStatus:
        """The status of a member; `leader_member_id` is left to the runtime. What cannot be read is a dead member."""

    def parse_control(self, output: str) -> tuple[str, ControlStatus]:
        """Why an admin command was refused (empty: it was not), and what the member says."""

    def control_of_files(self, recording_log: bytes) -> ControlStatus:
        """What is known of a member that is down."""


class AnswersAsJson:
    """What commands inside of a container print, for a system whose commands print JSON. Part of a system."""

    def parse_status(self, member_id: int, output: str) -> MemberStatus:
        """From what `status_command` prints; a member whose output makes no sense counts as down."""
        try:
            fields = jsonfields.parse_object(output)
            if not fields.get("alive"):
                return MemberStatus(member_id, alive=False)
            if fields.get("role") is None:
                return MemberStatus(member_id, alive=True)
            fields |= {"member_id": member_id, "alive": True, "pids": {"all": jsonfields.integer(fields, "pid")}}
            return jsonfields.decode(MemberStatus, fields, ("leadership_term_id", "append_position", "commit_position"))
        except FieldError:
            return MemberStatus(member_id, alive=False)

    def parse_control(self, output: str) -> tuple[str, ControlStatus]:
        """From what `command_line` prints: why the command was not taken, and the status."""
        try:
            fields = jsonfields.parse_object(output)
            state = None if fields.get("module_state") is None else jsonfields.text(fields, "module_state")
            numbers = ("snapshot_count", "snapshot_position", "standby_position")
            status = ControlStatus(state, *(jsonfields.integer(fields, name) for name in numbers))
            return jsonfields.text(fields, "refused"), status
        except FieldError as error:
            return f"the member does not answer: {error}", ControlStatus()

    def control_of_files(self, recording_log: bytes) -> ControlStatus:
        """From the recording log of a member that is down."""
        return read_control(None, recording_log)


class UpheavalNode(AnswersAsJson):
    """The node of this repository. Implements `SystemInContainers`."""

    text = OWN_SYSTEM
    digest = ""
    note = ""
    runtimes = RUNTIMES
    split_runtimes = LIVE_RUNTIMES
    configuration_file = "config.json"
    has_streams = True
    longest_clock_jump_ms = LONGEST_JUMP_MS
    companions: Companions = NodeCompanions()
    image = f"upheaval/node:{__version__}"
    image_labels: Mapping[str, str] = MappingProxyType({})
    test_image = f"upheaval/node-test:{__version__}"
    folder = PurePosixPath("/var/lib/upheaval")
    # The order of the members string.
    ports = (9001, 9002, 9003, 9004, 9005)
    channels = (INGRESS, *CHANNELS)
    metrics_port = 9006
    shared_memory = ""
    expected_exit_statuses = (int(ExitStatus.COMPONENT_LOST),)
    status_command: Sequence[str] = ("python3", "-m", "upheaval_node.runtime.health", "--json", "--repeat")
    tool_command: Sequence[str] = ("python3", "-m", "upheaval_node.tool")

    def upgraded_to(self, text: str) -> str:
        """Raises `UsageError`: members run what is installed."""
        raise UsageError(f"--to {text}: members of {self.text} run what is installed: leave out --to")

    def with_member(self, member_id: int, text: str, members: int) -> str:  # noqa: ARG002 - all are of one
        """There is one version of it here."""
        return text

    def require_app_version(self) -> None:
        """It has one."""

    def check(self, spec: ClusterSpec) -> None:
        """Raises `UsageError` for an unknown profile, sync level, service or planted bug."""
        if spec.planted is not None:
            bug_named(spec.planted)
        if spec.client:
            raise UsageError(f"client {spec.client!r}: programs in Java are clients of members of Aeron alone")
        require_one_service(spec)
        try:
            profile_settings(spec.profile, sync_level=spec.sync_level)
            if spec.is_service_here:
                with on_python_path(spec.python_path):
                    load_service(spec.service)
            for name in spec.more_services:
                load_service(name)
        except NodeError as error:
            raise UsageError(str(error)) from error

    def configuration(self, plan: MemberPlan) -> Mapping[str, Json]:
        """See `upheaval_node.member_config`. Members are Aeron's `id,ingress,consensus,log,catchup,archive|...`."""
        members = "|".join(",".join([str(number), *endpoints]) for number, endpoints in enumerate(plan.endpoints))
        metrics_host, _, metrics_port = plan.metrics.rpartition(":")
        return {
            "member_id": plan.member_id,
            "members": members,
            "folder": plan.folder,
            "service": [plan.spec.service, *plan.spec.more_services],
            "profile": plan.spec.profile,
            "sync_level": plan.spec.sync_level,
            "run_id": plan.spec.run_id,
            "trace": "trace.jsonl",
            "python_path": list(plan.python_path),
            "names": dict(plan.names),
            "metrics_host": metrics_host,
            "metrics_port": int(metrics_port),
            "settings": _settings(plan),
            "tls": dict(plan.tls),
            "protocol_trace": plan.spec.protocol_trace,
        }

    def configuration_text(self, plan: MemberPlan) -> str:
        """As JSON."""
        return jsonfields.to_json(self.configuration(plan)) + "\n"

    def start_delay_s(self, folder: Path, component: str) -> float:  # noqa: ARG002 - a lock tells who is alive
        """None: its marks are locked while it lives."""
        return 0.0

    def clients(self, needs: ClientNeeds) -> Clients:
        """Those of this repository."""
        return NodeClients(needs)

    def waiting_clients(self, way: WayIn, options: ClientOptions) -> WaitingClients:
        """Those of this repository."""
        return NodeWaitingClients(way, options)

    def command(self, plan: MemberPlan, configuration: Path) -> Sequence[str]:
        """The node's own program, or the one of planted bugs."""
        program = ["upheaval_node.runtime.main"]
        if plan.spec.planted is not None:
            program = ["upheaval_chaos.planted.main", "--planted", plan.spec.planted]
        # -P: a queue.py of the current folder is not the one of Python.
        return [sys.executable, "-P", "-m", *program, "--config", str(configuration), *self.arguments(plan)]

    def ping(self, channels: Sequence[str], extra_length: int = 0) -> tuple[str, PingText]:
        """See `upheaval_chaos.pings`."""
        channel = channel_of_ping(channels)
        return channel, ping_text(channel, extra_length)

    def traced_exit_status(self, member: MemberFolder, pid: int) -> int | None:
        """From the last event of the process."""
        return traced_exit_status(member, pid)

    def clean_up(self, folder: Path) -> None:
        """The sockets of the media driver."""
        for entry in (folder / layout.DRIVER_DIRECTORY).glob("*"):
            if entry.is_socket():
                entry.unlink(missing_ok=True)

    def read_status(self, folder: Path, member_id: int, run_id: str) -> MemberStatus:
        """From the counters and mark files in the member's folder."""
        return read_member_status(folder, member_id, run_id)

    def read_control(self, folder: Path) -> ControlStatus:
        """From the counters in the member's folder, and from its files when it is down."""
        return control.control_status(str(folder))

    def give_command(self, folder: Path, command: str) -> str:
        """Through the control toggle in the member's counters; why it was not taken, empty when it was."""
        return control.give_command(str(folder), command)

    def tool(self, options: Options) -> Answer:
        """The node's own tool."""
        return execute(options)

    def command_line(self, command: str | None) -> Sequence[str]:
        """What does in the member's container what `give_command` and `read_control` do here."""
        return ("python3", "-m", control.__name__, command or control.STATUS)

    @property
    def recording_log(self) -> PurePosixPath:
        """Its path in a container."""
        return self.folder / layout.RECORDING_LOG

    def environment(self, plan: MemberPlan) -> Mapping[str, str]:
        """What a container receives: the configuration, the run, the planted bug, and which form of the node to run."""
        environment = {"UPHEAVAL_CONFIG": json.dumps(self.configuration(plan)), "UPHEAVAL_RUN_ID": plan.spec.run_id}
        if VARIABLE in os.environ:
            environment[VARIABLE] = os.environ[VARIABLE]
        return environment if plan.spec.planted is None else {**environment, "UPHEAVAL_PLANTED": plan.spec.planted}

    def arguments(self, plan: MemberPlan) -> Sequence[str]:
        """What follows the program on the command line."""
        return ("--component", plan.component)


CONNECTIONS_A_SESSION: Final = 2
"""With a leader: a client that comes again has its old one for a while."""


def _settings(plan: MemberPlan) -> dict[str, Json]:
    spec = plan.spec
    cluster: dict[str, Json] = {"max_sessions": spec.max_sessions} if spec.max_sessions else {}
    if spec.leader_disconnect_ms:
        cluster["timeouts"] = {"leader_disconnect_ns": spec.leader_disconnect_ms * MS}
    if plan.credentials:
        cluster |= {"authenticator": f"credentials:{plan.credentials}", "authorisation": f"roles:{plan.credentials}"}
    settings: dict[str, Json] = {"cluster": cluster} if cluster else {}
    connections, usual = CONNECTIONS_A_SESSION * spec.max_sessions, MediaSettings()
    if connections > usual.max_connections_of_peer:
        # All of them may come from one host.
        in_all = max(connections, usual.max_connections)
        settings["media"] = {"max_connections": in_all, "max_connections_of_peer": connections}
    return settings


def require_one_service(spec: ClusterSpec) -> None:
    """Raises `UsageError` for several services of a member whose components are apart."""
    if spec.more_services and spec.components != TOGETHER:
        raise UsageError("components split: a member has one service")


def require_streams(system: SystemUnderTest, what: str) -> None:
    """Raises `UsageError` where `what` speaks to members by streams, and they do not."""
    if not system.has_streams:
        raise UsageError(f"system {system.text} speaks datagrams: {what} cannot be used with it")


def require_jump(system: SystemUnderTest, milliseconds: int) -> None:
    """Raises `UsageError` for a jump of the clock that members of the system do not survive."""
    most = system.longest_clock_jump_ms
    if abs(milliseconds) > most:
        text = f"clock-jump: members of {system.text} end by a jump of more than {most} ms"
        raise UsageError(f"{text}: use a jump-ms from -{most} to {most}")


def require_meaning(system: SystemUnderTest, kind: LinkFaultKind | DatagramFaultKind) -> None:
    """Raises `UsageError` for a fault that has no meaning for what members speak."""
    if isinstance(kind, DatagramFaultKind) and system.has_streams:
        raise UsageError(f"system {system.text} speaks streams: {kind} is done to datagrams, use --system aeron")
    if kind in (LinkFaultKind.RESET, LinkFaultKind.TIMEOUT):
        require_streams(system, f"the fault {kind}, which ends connections,")


def traced_exit_status(member: MemberFolder, pid: int) -> int | None:
    """With which status a process says that it ends, in the last event of it."""
    events = (event for event in member.read_trace() if event.event == TraceKind.PROCESS_END)
    ends = [event for event in events if event.fields.get("pid") == pid]
    status = ends[-1].fields.get("status") if ends else None
    return status if isinstance(status, int) else None


def port_in_container(system: SystemInContainers, channel: str) -> int:
    """Where a member in a container listens for a channel."""
    return system.ports[system.channels.index(channel)]


@contextlib.contextmanager
def on_python_path(folders: Sequence[str]) -> Iterator[None]:
    """Look for modules where the members will, without leaving it so."""
    sys.path[:0] = folders
    try:
        yield
    finally:
        for folder in folders:
            with contextlib.suppress(ValueError):
                sys.path.remove(folder)
