"""What the harness knows about a member, per system under test: its ports, and how it is configured, started, asked and
checked.

Runtimes know members only through this module, in processes as in containers. Our node is the first system; another
system is another object of the same shape, which `systems` finds by name.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final, Protocol, runtime_checkable

from upheaval.errors import UsageError
from upheaval.python_path import on_python_path
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
from upheaval_chaos.target import CHANNELS, INGRESS, DatagramFaultKind, LinkFaultKind
from upheaval_node import __version__
from upheaval_node.client.driving import ClientOptions
from upheaval_node.cluster.rules import OWN
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

SOURCE_FOLDER: Final = "source"
"""The folder for the code of a user's own service, inside the member's folder."""


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """One member of a cluster, or one component of it, as a runtime wants it.

    `endpoints` are the endpoints of all members in order of their ids, each in the order of the system's `ports`;
    `metrics` is where this member publishes its metrics. `component` is `all` for a whole member. `python_path` is
    where it finds the code of its service. `names` gives the address to dial for an endpoint of another member. `tls`
    are the files of its certificate, empty without TLS; `credentials` is its copy of the credentials file, empty for
    everyone.
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
    """What a runtime has to know about a system."""

    @property
    def text(self) -> str:
        """Its name, with a version if it has several, as `system_named` takes it."""

    @property
    def digest(self) -> str:
        """The SHA-256 of the file that its members run; empty if they run the installed version."""

    @property
    def note(self) -> str:
        """A sentence for the user who starts a cluster of it; may be empty."""

    @property
    def runtimes(self) -> Sequence[str]:
        """The runtimes that support it."""

    @property
    def split_runtimes(self) -> Sequence[str]:
        """The runtimes that support members with split components."""

    @property
    def channels(self) -> Sequence[str]:
        """The channel of each port, by the names of `upheaval_chaos.target`."""

    @property
    def has_streams(self) -> bool:
        """Whether its members use byte streams, as our proxies and clients do."""

    @property
    def longest_clock_jump_ms(self) -> int:
        """The longest clock jump in ms, ahead or back, that a member survives."""

    @property
    def companions(self) -> Companions:
        """How the nodes beside its members are made."""

    @property
    def expected_exit_statuses(self) -> Sequence[int]:
        """The exit statuses of a component that ended because another component of its member had."""

    def check(self, spec: ClusterSpec) -> None:
        """Raises `UsageError` for a specification that could never start. Skips a service that is not on this
        machine.
        """

    def clients(self, needs: ClientNeeds) -> Clients:
        """The clients for the sessions of a load. Raises `HarnessError` when they are unavailable."""

    def waiting_clients(self, way: WayIn, options: ClientOptions) -> WaitingClients:
        """The waiting clients, with the options that exist for every system: name, certificate, credentials. Raises
        `HarnessError` when they are unavailable.
        """

    def ping(self, channels: Sequence[str], extra_length: int = 0) -> tuple[str, PingText]:
        """Which of a link's channels to ping, and the text that makes a member answer without disturbing it."""

    def traced_exit_status(self, member: MemberFolder, pid: int) -> int | None:
        """The exit status of a process from its trace in the run folder; None when the trace has none."""

    def upgraded_to(self, text: str) -> str:
        """The text of the members' system after an upgrade to `text`, which is prepared here. Raises `UsageError` for
        another system or an older version, and `HarnessError` when it is unavailable.
        """

    def with_member(self, member_id: int, text: str, members: int) -> str:
        """The text of this system in a cluster of that size with one member of the system `text`."""

    def require_app_version(self) -> None:
        """Raises `UsageError` if the harness cannot set the application version of members."""

    # --- in processes ---

    @property
    def configuration_file(self) -> str:
        """The name of the configuration file in a member's folder."""

    def configuration_text(self, plan: MemberPlan) -> str:
        """The content of the configuration file."""

    def start_delay_s(self, folder: Path, component: str) -> float:
        """How many seconds a member that is down, or a component of it, has to stay down before it can start."""

    def command(self, plan: MemberPlan, configuration: Path) -> Sequence[str]:
        """The command that runs a member, or one component of it, on this machine."""

    def clean_up(self, folder: Path) -> None:
        """Remove the files of an ended member that are of no further use."""

    def read_status(self, folder: Path, member_id: int, run_id: str) -> MemberStatus:
        """The status of a member whose files are on this machine, without `leader_member_id`, which the
        runtime sets.
        """

    def read_control(self, folder: Path) -> ControlStatus:
        """What the consensus module reports of a member whose files are on this machine, alive or not."""

    def give_command(self, folder: Path, command: str) -> str:
        """Give the member an operator's admin command. Returns why it was refused, empty if it was not."""

    def tool(self, options: Options) -> Answer:
        """Run a command of `upheaval tool` on a node whose files are on this machine. Raises `NodeError`, and
        `HarnessError` when something that the command needs is unavailable.
        """


@runtime_checkable
class SystemInContainers(SystemUnderTest, Protocol):
    """What the docker runtime has to know about a system in addition."""

    @property
    def ports(self) -> Sequence[int]:
        """The ports of a member in a container, ingress first."""

    @property
    def metrics_port(self) -> int:
        """The metrics port of a member in a container."""

    @property
    def shared_memory(self) -> str:
        """The size of /dev/shm in a container, in the engine's notation; empty for its default."""

    @property
    def image(self) -> str:
        """The tag of the image."""

    @property
    def image_labels(self) -> Mapping[str, str]:
        """The labels of images of its members, including those that users build on top."""

    @property
    def test_image(self) -> str:
        """The tag of the image with a test build, which can have a planted bug."""

    @property
    def folder(self) -> PurePosixPath:
        """Where a member keeps everything that the run folder should contain: mounted as a volume, collected at the
        end.
        """

    @property
    def status_command(self) -> Sequence[str]:
        """A command inside the container that prints the input of `parse_status`, once per line of its
        standard input.
        """

    @property
    def tool_command(self) -> Sequence[str]:
        """A command inside the container that does, with `--json`, what `tool` does here."""

    def command_line(self, command: str | None) -> Sequence[str]:
        """A command inside the container that gives an admin command, if any, and prints the input of
        `parse_control`.
        """

    @property
    def recording_log(self) -> PurePosixPath:
        """The file from which `control_of_files` reads the status of a member that is down."""

    def environment(self, plan: MemberPlan) -> Mapping[str, str]:
        """The environment that configures a member."""

    def arguments(self, plan: MemberPlan) -> Sequence[str]:
        """The arguments of the image's entry point."""

    def parse_status(self, member_id: int, output: str) -> MemberStatus:
        """The status of a member, without `leader_member_id`, which the runtime sets. Unreadable output means a dead
        member.
        """

    def parse_control(self, output: str) -> tuple[str, ControlStatus]:
        """Why an admin command was refused (empty if it was not), and the member's status."""

    def control_of_files(self, recording_log: bytes) -> ControlStatus:
        """The status of a member that is down."""


class AnswersAsJson:
    """Parses the output of commands inside a container, for a system whose commands print JSON. A mixin."""

    def parse_status(self, member_id: int, output: str) -> MemberStatus:
        """Parse the output of `status_command`. A member with malformed output counts as down."""
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
        """Parse the output of `command_line`: why the command was refused, and the status."""
        try:
            fields = jsonfields.parse_object(output)
            state = None if fields.get("module_state") is None else jsonfields.text(fields, "module_state")
            numbers = ("snapshot_count", "snapshot_position", "standby_position")
            status = ControlStatus(state, *(jsonfields.integer(fields, name) for name in numbers))
            return jsonfields.text(fields, "refused"), status
        except FieldError as error:
            return f"the member does not answer: {error}", ControlStatus()

    def control_of_files(self, recording_log: bytes) -> ControlStatus:
        """Read the recording log of a member that is down."""
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
        """Raises `UsageError`: members run the installed version."""
        raise UsageError(f"--to {text}: members of {self.text} run what is installed: leave out --to")

    def with_member(self, member_id: int, text: str, members: int) -> str:  # noqa: ARG002 - all are of one
        """The same text: only one version is installed."""
        return text

    def require_app_version(self) -> None:
        """Does nothing: members have an application version."""

    def check(self, spec: ClusterSpec) -> None:
        """Raises `UsageError` for an unknown profile, sync level, service or planted bug."""
        if spec.planted is not None:
            from upheaval_chaos.planted.catalogue import bug_named  # imports the whole node

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
        """See `upheaval_node.member_config`. The members string has Aeron's form,
        `id,ingress,consensus,log,catchup,archive|...`.
        """
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
        """The configuration as JSON."""
        return jsonfields.to_json(self.configuration(plan)) + "\n"

    def start_delay_s(self, folder: Path, component: str) -> float:  # noqa: ARG002 - a lock tells who is alive
        """Zero: a live member locks its mark files, so a restart needs no delay."""
        return 0.0

    def clients(self, needs: ClientNeeds) -> Clients:
        """The clients of this repository."""
        return NodeClients(needs)

    def waiting_clients(self, way: WayIn, options: ClientOptions) -> WaitingClients:
        """The blocking clients of this repository."""
        return NodeWaitingClients(way, options)

    def command(self, plan: MemberPlan, configuration: Path) -> Sequence[str]:
        """The node's own program, or the program with planted bugs."""
        program = ["upheaval_node.runtime.main"]
        if plan.spec.planted is not None:
            program = ["upheaval_chaos.planted.main", "--planted", plan.spec.planted]
        # -P: a queue.py in the current folder must not shadow Python's own module.
        return [sys.executable, "-P", "-m", *program, "--config", str(configuration), *self.arguments(plan)]

    def ping(self, channels: Sequence[str], extra_length: int = 0) -> tuple[str, PingText]:
        """See `upheaval_chaos.pings`."""
        channel = channel_of_ping(channels)
        return channel, ping_text(channel, extra_length)

    def traced_exit_status(self, member: MemberFolder, pid: int) -> int | None:
        """The status in the last event of the process."""
        return traced_exit_status(member, pid)

    def clean_up(self, folder: Path) -> None:
        """Remove the sockets of the media driver."""
        for entry in (folder / layout.DRIVER_DIRECTORY).glob("*"):
            if entry.is_socket():
                entry.unlink(missing_ok=True)

    def read_status(self, folder: Path, member_id: int, run_id: str) -> MemberStatus:
        """Read the status from the counters and mark files in the member's folder."""
        return read_member_status(folder, member_id, run_id)

    def read_control(self, folder: Path) -> ControlStatus:
        """Read the control status from the counters in the member's folder, or from its files when it is down."""
        return control.control_status(str(folder))

    def give_command(self, folder: Path, command: str) -> str:
        """Set the control toggle in the member's counters. Returns why it was refused, empty if it was not."""
        return control.give_command(str(folder), command)

    def tool(self, options: Options) -> Answer:
        """The node's own tool."""
        return execute(options)

    def command_line(self, command: str | None) -> Sequence[str]:
        """The command that does inside the container what `give_command` and `read_control` do here."""
        return ("python3", "-m", control.__name__, command or control.STATUS)

    @property
    def recording_log(self) -> PurePosixPath:
        """Its path in a container."""
        return self.folder / layout.RECORDING_LOG

    def environment(self, plan: MemberPlan) -> Mapping[str, str]:
        """The variables of a container: the configuration, the run, the planted bug, and the form of the node
        to run.
        """
        environment = {"UPHEAVAL_CONFIG": json.dumps(self.configuration(plan)), "UPHEAVAL_RUN_ID": plan.spec.run_id}
        if VARIABLE in os.environ:
            environment[VARIABLE] = os.environ[VARIABLE]
        return environment if plan.spec.planted is None else {**environment, "UPHEAVAL_PLANTED": plan.spec.planted}

    def arguments(self, plan: MemberPlan) -> Sequence[str]:
        """The arguments after the program."""
        return ("--component", plan.component)


CONNECTIONS_A_SESSION: Final = 2
"""The connections of one session to its leader: a client that reconnects keeps its old connection for a while."""


def _settings(plan: MemberPlan) -> dict[str, Json]:
    spec = plan.spec
    cluster: dict[str, Json] = {"max_sessions": spec.max_sessions} if spec.max_sessions else {}
    if spec.app_version:
        cluster["app_version"] = spec.app_version
    if spec.timeouts:
        cluster["timeouts"] = dict(spec.timeouts)
    if spec.compatibility != OWN:
        cluster["compatibility"] = spec.compatibility
    if plan.credentials:
        cluster |= {"authenticator": f"credentials:{plan.credentials}", "authorisation": f"roles:{plan.credentials}"}
    settings: dict[str, Json] = {"cluster": cluster} if cluster else {}
    connections, usual = CONNECTIONS_A_SESSION * spec.max_sessions, MediaSettings()
    if connections > usual.max_connections_of_peer:
        # All connections may come from one host.
        in_all = max(connections, usual.max_connections)
        settings["media"] = {"max_connections": in_all, "max_connections_of_peer": connections}
    return settings


def require_one_service(spec: ClusterSpec) -> None:
    """Raises `UsageError` for a member with several services and split components."""
    if spec.more_services and spec.components != TOGETHER:
        raise UsageError("components split: a member has one service")


def require_streams(system: SystemUnderTest, what: str) -> None:
    """Raises `UsageError` if `what` needs byte streams and the members do not use them."""
    if not system.has_streams:
        raise UsageError(f"system {system.text} speaks datagrams: {what} cannot be used with it")


def require_jump(system: SystemUnderTest, milliseconds: int) -> None:
    """Raises `UsageError` for a clock jump that members of the system do not survive."""
    most = system.longest_clock_jump_ms
    if abs(milliseconds) > most:
        text = f"clock-jump: members of {system.text} end by a jump of more than {most} ms"
        raise UsageError(f"{text}: use a jump-ms from -{most} to {most}")


def require_meaning(system: SystemUnderTest, kind: LinkFaultKind | DatagramFaultKind) -> None:
    """Raises `UsageError` for a fault that does not apply to the members' protocol, streams or datagrams."""
    if isinstance(kind, DatagramFaultKind) and system.has_streams:
        raise UsageError(f"system {system.text} speaks streams: {kind} is done to datagrams, use --system aeron")
    if kind in (LinkFaultKind.RESET, LinkFaultKind.TIMEOUT):
        require_streams(system, f"the fault {kind}, which ends connections,")


def traced_exit_status(member: MemberFolder, pid: int) -> int | None:
    """The exit status in the last event of a process; None when there is none."""
    events = (event for event in member.read_trace() if event.event == TraceKind.PROCESS_END)
    ends = [event for event in events if event.fields.get("pid") == pid]
    status = ends[-1].fields.get("status") if ends else None
    return status if isinstance(status, int) else None


def port_in_container(system: SystemInContainers, channel: str) -> int:
    """The port on which a member in a container listens for a channel."""
    return system.ports[system.channels.index(channel)]
