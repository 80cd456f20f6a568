"""Members of Aeron Cluster, in Java, as a system under test: processes on this machine, or containers.

A member is one process of `upheaval.Member` (`images/aeron`). Until the run ends, its recordings and its recording log
are in its folder, and its media driver's directory is in shared memory. Its status comes from Aeron's own files, whose
layout our node's files share. This module starts and ends nothing.
"""

import contextlib
import itertools
import mmap
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from upheaval.aeron_jars import jar, jar_digest, order_of, versions_of
from upheaval.aeron_programs import (
    AERON_LABEL,
    CONFIGURATION_VARIABLE,
    INSIDE,
    classes_note,
    image_tag,
    java_command,
)
from upheaval.errors import UsageError
from upheaval.records import MemberFolder
from upheaval.records.class_path import class_name, class_path_of
from upheaval.runtime_names import LIVE_RUNTIMES
from upheaval.system.aeron_clients import AnyBridge, Bridge, BridgeClients, Egress, RunningBridge
from upheaval.system.aeron_companions import AeronCompanions
from upheaval.system.aeron_files import (
    DIRECTORY,
    DRIVER_IN_VOLUME,
    MEMBER_ID,
    PROPERTIES_FILE,
    RUN_ID,
    counters_file,
    directory_in_container,
    driver_pid,
    free_driver,
    is_running,
    properties_text,
    property_of,
    shared_directory,
)
from upheaval.system.aeron_launcher import (
    TOOL_OPTIONS,
    java_options,
    launch_line,
    launcher_in_container,
    require_launcher,
)
from upheaval.system.aeron_services import require_services
from upheaval.system.aeron_tool import ask, is_asking
from upheaval.system.aeron_waiting import BridgeWaitingClients
from upheaval.system.clients import ClientNeeds, Clients, WaitingClients, WayIn
from upheaval.system.cluster_spec import ClusterSpec
from upheaval.system.companions import Companions
from upheaval.system.member_control import ControlStatus, give_command, read_control
from upheaval.system.member_status import log_recording_id, read_counters, status_from_counters
from upheaval.system.process_table import (
    COMPONENT_VARIABLE,
    ENDED_BY_SIGTERM,
    MEMBER_VARIABLE,
    RUN_ID_VARIABLE,
    process_of,
    processes_of,
)
from upheaval.system.status import COMPONENTS, MemberStatus
from upheaval.system.under_test import AnswersAsJson, MemberPlan, require_one_service, traced_exit_status
from upheaval_chaos.pings import PingText, channel_of_ping, datagram_ping_text
from upheaval_chaos.target import CHANNELS, INGRESS
from upheaval_node.client.driving import ClientOptions
from upheaval_node.counters import Counters
from upheaval_node.errors import NodeError
from upheaval_node.files import cnc, layout, mark_file
from upheaval_node.runtime.exit_status import ExitStatus
from upheaval_node.settings import profile_settings
from upheaval_node.tool.__main__ import Options, execute, node_folder
from upheaval_node.tool.answer import Answer
from upheaval_node.types import MS

AERON: Final = "aeron"
CLASS_PATH_VARIABLE: Final = "UPHEAVAL_CLASS_PATH"
FOLDER_IN_CONTAINER: Final = "/var/lib/upheaval"
_WHOLE: Final = "all"
_MARKS: Final = {
    "archive": layout.ARCHIVE_MARK,
    "consensus": layout.CLUSTER_MARK,
    "service": f"{layout.CLUSTER_DIRECTORY}/cluster-mark-service-*.dat",
}
_MARGIN_MS: Final = 500
_BRIDGE: Final = "upheaval.Bridge"
_BRIDGES: Final = itertools.count()
"""Numbers the bridges of this process: each has its own directory in shared memory."""


class AeronSystem(AnswersAsJson):
    """Aeron Cluster in one version, or one version per member. Implements `SystemInContainers`.

    Clients and companions have the oldest version, `version`: members of Aeron accept older peers.
    """

    runtimes = LIVE_RUNTIMES
    split_runtimes = LIVE_RUNTIMES
    # The order of the members string, then the endpoint for replication.
    ports = (9001, 9002, 9003, 9004, 9005)
    metrics_port = 9006
    shared_memory = "256m"
    folder = PurePosixPath(FOLDER_IN_CONTAINER)
    status_command: Sequence[str] = (*INSIDE, "status", "--repeat")
    tool_command: Sequence[str] = (*INSIDE, "tool")
    channels = (INGRESS, *CHANNELS)
    expected_exit_statuses = (int(ExitStatus.COMPONENT_LOST), ENDED_BY_SIGTERM)
    configuration_file = PROPERTIES_FILE
    has_streams = False
    # Clients of the driver read its keepalive from the wall clock, and end when it is 10 s old.
    longest_clock_jump_ms = 9000

    def __init__(self, version: str = "") -> None:
        versions = versions_of(version)
        self.versions = versions if len(set(versions)) > 1 else versions[:1]
        """In order of member ids; one of all members."""
        self.version = min(self.versions, key=order_of)
        self.companions: Companions = AeronCompanions(self.version)

    @property
    def text(self) -> str:
        """The name with the version, even if the user gave none."""
        return f"{AERON}:{','.join(self.versions)}"

    @property
    def digest(self) -> str:
        """The digest of the jar; for several versions, comma-separated digests."""
        return ",".join(map(jar_digest, self.versions))

    @property
    def note(self) -> str:
        """A note when the member program was compiled for another version."""
        return "; ".join(dict.fromkeys(filter(None, map(classes_note, self.versions))))

    def version_of(self, member_id: int) -> str:
        """The version of a member; `version` for a member that the text does not name."""
        return self.versions[member_id] if 0 <= member_id < len(self.versions) > 1 else self.version

    def upgraded_to(self, text: str) -> str:
        """See `SystemUnderTest`. Fetches the jar and compiles the member program."""
        name, _, version = text.partition(":")
        if name != AERON or len(versions_of(version)) > 1:
            raise UsageError(f"--to {text}: members of {self.text} are upgraded to one {AERON}:VERSION")
        target = AeronSystem(version)
        newest = max(self.versions, key=order_of)
        if order_of(target.version) < order_of(newest):
            raise UsageError(
                f"--to {target.text}: members run {newest}, and an older Aeron need not read what a newer one wrote: "
                "use that version or a newer one, or a new cluster"
            )
        java_command(target.version, "upheaval.Member")
        return target.text

    def require_app_version(self) -> None:
        """Raises `UsageError`: members have Aeron's default application version."""
        raise UsageError(
            f"--app-version: members of {self.text} have Aeron's default: use --to {AERON}:VERSION, or neither"
        )

    def with_member(self, member_id: int, text: str, members: int) -> str:
        """See `SystemUnderTest`."""
        versions = [self.version_of(number) for number in range(members)]
        versions[member_id] = AeronSystem(text.partition(":")[2]).version
        return AeronSystem(",".join(versions)).text

    def check(self, spec: ClusterSpec) -> None:
        """Raises `HarnessError` for options that members of Aeron do not support, and without Java or the jar."""
        try:
            profile_settings(spec.profile, sync_level=spec.sync_level)
        except NodeError as error:
            raise UsageError(str(error)) from error
        require_services(spec, self.text)
        if len(self.versions) not in (1, spec.members):
            raise UsageError(f"system {self.text} names {len(self.versions)} versions for {spec.members} members")
        others = {
            "TLS": bool(spec.tls),
            "credentials": bool(spec.credentials),
            "planted bugs": spec.planted is not None,
            "protocol trace": spec.protocol_trace > 0,
            "leader disconnect time-out": spec.leader_disconnect_ms > 0,
        }
        for what, is_wanted in others.items():
            if is_wanted:
                raise UsageError(f"system {self.text} has no {what}")
        require_one_service(spec)
        for version in self.versions:
            java_command(version, "upheaval.Member")
        require_launcher(spec)

    def configuration_text(self, plan: MemberPlan) -> str:
        """A Java properties file."""
        return properties_text(_properties(plan))

    def command(self, plan: MemberPlan, configuration: Path) -> Sequence[str]:
        """The member program, or the user's launcher."""
        if plan.spec.launcher:
            return launch_line(plan.spec, self.version_of(plan.member_id), configuration)
        services = class_path_of(plan.spec.service, plan.python_path)
        version = self.version_of(plan.member_id)
        arguments = (str(configuration), plan.component)
        return java_command(version, "upheaval.Member", *arguments, services=services, options=java_options(plan.spec))

    @property
    def image(self) -> str:
        """The image of its version. Raises `UsageError` for several versions: the members of a cluster have
        one image.
        """
        if len(self.versions) > 1:
            raise UsageError(f"system {self.text}: members of several versions run as processes: use --runtime process")
        return image_tag(AERON, self.version)

    @property
    def image_labels(self) -> Mapping[str, str]:
        """Its version."""
        return {AERON_LABEL: self.version}

    @property
    def test_image(self) -> str:
        """The same image: it has no planted bugs."""
        return self.image

    def command_line(self, command: str | None) -> Sequence[str]:
        """The command that does inside the container what `give_command` and `read_control` do here."""
        return (*INSIDE, "control", *([] if command is None else [command]))

    @property
    def recording_log(self) -> PurePosixPath:
        """Its path in a container."""
        return self.folder / layout.RECORDING_LOG

    def environment(self, plan: MemberPlan) -> Mapping[str, str]:
        """The variables of a container: the properties and their owner, and the folder of a copied service."""
        folders = [str(self.folder / folder) for folder in plan.python_path]
        # Components in separate containers share only the member's volume.
        is_split = plan.component != _WHOLE
        shared = directory_in_container(plan.spec.run_id, str(plan.member_id))
        driver = {DIRECTORY: str(self.folder / DRIVER_IN_VOLUME if is_split else shared)}
        return {
            **({COMPONENT_VARIABLE: plan.component} if is_split else {}),
            CONFIGURATION_VARIABLE: properties_text({**_properties(plan), **driver}),
            CLASS_PATH_VARIABLE: os.pathsep.join(class_path_of(plan.spec.service, folders)),
            RUN_ID_VARIABLE: plan.spec.run_id,
            MEMBER_VARIABLE: str(plan.member_id),
            **({TOOL_OPTIONS: plan.spec.jvm} if plan.spec.jvm else {}),
            **launcher_in_container(plan.spec, self.folder),
        }

    def arguments(self, plan: MemberPlan) -> Sequence[str]:  # noqa: ARG002 - all is in the environment
        """None."""
        return ()

    def start_delay_s(self, folder: Path, component: str) -> float:
        """Aeron treats a mark file as active for 10 s after the last sign of life of its process."""
        return max((_active_for_s(path) for path in _marks(folder, component)), default=0.0)

    def clean_up(self, folder: Path) -> None:
        """Keep the counters of a member that has ended, and free its shared memory."""
        free_driver(folder)

    def ping(self, channels: Sequence[str], extra_length: int = 0) -> tuple[str, PingText]:
        """See `upheaval_chaos.pings`."""
        channel = channel_of_ping(channels)
        return channel, datagram_ping_text(channel, extra_length)

    def traced_exit_status(self, member: MemberFolder, pid: int) -> int | None:
        """The status in the last event of the process."""
        return traced_exit_status(member, pid)

    def read_status(self, folder: Path, member_id: int, run_id: str) -> MemberStatus:
        """Read the status from the counters in the driver's directory."""
        path = counters_file(folder)
        pid = driver_pid(path)
        process = process_of(pid, run_id) if pid > 0 else None
        if path is None or process is None or process.member_id != member_id:
            return MemberStatus(member_id, alive=False)
        # In a container it has no name: there is no other.
        component = process.component or _WHOLE
        pids = {component: pid}
        if component != _WHOLE:
            # Those of other containers have ids that mean nothing here.
            others = [process for process in processes_of(run_id) if process.member_id == member_id]
            pids = {process.component: process.pid for process in others} | pids
            if not all(is_running(folder, component) for component in COMPONENTS):
                return MemberStatus(member_id, alive=False, pids=pids)
        status = MemberStatus(member_id, alive=True, pids=pids)
        try:
            counters = read_counters(path, pid)
        except (OSError, NodeError):
            counters = None
        if counters is None:
            return status
        return status_from_counters(status, counters, log_recording_id(_recording_log(folder)))

    def read_control(self, folder: Path) -> ControlStatus:
        """Read the control status from the counters of a live member, and from its recording log."""
        path = counters_file(folder)
        counters = None
        if path is not None and _is_alive(folder):
            with contextlib.suppress(OSError, NodeError):
                counters = read_counters(path, driver_pid(path))
        return read_control(counters, _recording_log(folder))

    def give_command(self, folder: Path, command: str) -> str:
        """Set the toggle in the mapped counters, as Aeron's ClusterTool does."""
        path = counters_file(folder)
        if path is None or not _is_alive(folder):
            return "the member is not running"
        with path.open("r+b", buffering=0) as stream:
            header = cnc.read_header(stream.read(cnc.HEADER_LENGTH))
            if header is None:
                return "the member is not running"
            # The map closes when nothing refers to it any more: the counters have views of it.
            view = memoryview(mmap.mmap(stream.fileno(), 0))
        values = view[header.counters_values_offset :][: header.layout.counters_values_length]
        metadata = view[header.counters_metadata_offset :][: header.layout.counters_metadata_length]
        return give_command(Counters(values, metadata, 0, 0), command)

    def tool(self, options: Options, aeron: Path | None = None) -> Answer:
        """Use Aeron's ClusterTool for questions to a running member, in the member's version unless a jar is given."""
        if not is_asking(options) or not _is_alive(node_folder(options)):
            return execute(options)
        member_id = property_of(node_folder(options), MEMBER_ID)
        return ask(options, aeron or jar(self.version_of(-1 if member_id is None else int(member_id))))

    def clients(self, needs: ClientNeeds) -> Clients:
        """Sessions through a separate bridge."""
        return BridgeClients(needs, self._bridge(needs.way))

    def waiting_clients(self, way: WayIn, options: ClientOptions) -> WaitingClients:
        """Waiting clients through a bridge that they share. Raises `UsageError` for certificates and credentials."""
        for what, name in (("TLS", "tls"), ("credentials", "credentials_file")):
            if options.get(name):
                raise UsageError(f"system {self.text} has no {what}")
        return BridgeWaitingClients(way, self._bridge(way))

    def _bridge(self, way: WayIn) -> AnyBridge:
        if way.bridge:
            return RunningBridge(way.bridge)
        directory = shared_directory(way.run_id, f"client-{os.getpid()}-{next(_BRIDGES)}")
        names = [f"{endpoint}={address}" for endpoint, address in way.dialled.items()]
        *class_path, program = (way.client or _BRIDGE).split(":")
        egress = Egress(way)
        try:
            command = java_command(self.version, program, str(directory), egress.endpoint, *names, services=class_path)
            return Bridge(command, way.folder, directory, egress)
        except BaseException:
            egress.give_back()
            raise


def _properties(plan: MemberPlan) -> Mapping[str, str]:
    settings = profile_settings(plan.spec.profile, sync_level=plan.spec.sync_level).cluster
    times = settings.timeouts
    intervals = {
        "leader.heartbeat.interval": times.leader_heartbeat_interval_ns,
        "leader.heartbeat.timeout": times.leader_heartbeat_ns,
        "election.timeout": times.election_ns,
        "election.status.interval": times.election_status_interval_ns,
        "startup.canvass.timeout": times.startup_canvass_ns,
        "termination.timeout": times.termination_ns,
        "session.timeout": plan.spec.timeouts.get("session_ns", times.session_ns),
    }
    return {
        MEMBER_ID: str(plan.member_id),
        "members": "|".join(",".join([str(number), *endpoints]) for number, endpoints in enumerate(plan.endpoints)),
        "folder": plan.folder,
        DIRECTORY: str(shared_directory(plan.spec.run_id, str(plan.member_id))),
        # Members of Aeron publish no metrics, so their metrics port is free.
        "replication.endpoint": f"{_host(plan)}:{plan.metrics.rpartition(':')[2]}",
        "service": ",".join(map(class_name, (plan.spec.service, *plan.spec.more_services))),
        "sync.level": str(plan.spec.sync_level),
        "log.term.length": str(settings.log_term_length),
        "max.sessions": str(plan.spec.max_sessions or settings.max_sessions),
        RUN_ID: plan.spec.run_id,
        **({"app.version": str(plan.spec.app_version)} if plan.spec.app_version else {}),
        **{f"{name}.ms": str(ns // MS) for name, ns in intervals.items()},
        **{f"name.{endpoint.replace(':', '=')}": dialled for endpoint, dialled in plan.names.items()},
    }


def _host(plan: MemberPlan) -> str:
    """The host of a member as the others know it."""
    return plan.endpoints[plan.member_id][0].rpartition(":")[0]


def _marks(folder: Path, component: str) -> Iterator[Path]:
    for name, pattern in _MARKS.items():
        if component in (name, _WHOLE):
            yield from folder.glob(pattern)


def _active_for_s(path: Path) -> float:
    """How many seconds a mark file still counts as active; 0 if its owner ended in good order.

    Also 0 if its owner was killed during its start: version 1.51.0 refuses every later start, however long one waits
    (issue 2148 of Aeron). That start reports the reason.
    """
    try:
        with path.open("rb") as stream:
            last_ms = mark_file.owner_of(stream.read(mark_file.OWNER_LENGTH)).activity_timestamp_ms
    except OSError:
        return 0.0
    if last_ms == mark_file.ACTIVATION_IN_PROGRESS:
        return 0.0
    left_ms = last_ms + mark_file.LIVENESS_TIMEOUT_MS + _MARGIN_MS - time.time_ns() // MS
    return min(max(0, left_ms), mark_file.LIVENESS_TIMEOUT_MS + _MARGIN_MS) / 1000


def _is_alive(folder: Path) -> bool:
    """Whether the media driver of the member configured in the folder runs."""
    pid, run_id = driver_pid(counters_file(folder)), property_of(folder, RUN_ID)
    process = process_of(pid, run_id) if pid > 0 and run_id is not None else None
    return process is not None and str(process.member_id) == property_of(folder, MEMBER_ID)


def _recording_log(folder: Path) -> bytes:
    try:
        return (folder / layout.RECORDING_LOG).read_bytes()
    except OSError:
        return b""
