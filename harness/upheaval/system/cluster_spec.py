"""The specification of a cluster as one value, shared by scenarios, tests, commands and runtimes."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from upheaval.errors import UsageError
from upheaval.records import OWN_SYSTEM, TOGETHER, Components, MemberCount, Profile, SyncLevel
from upheaval.records.jsonfields import FilePath
from upheaval.workload import WORKBENCH_SERVICE
from upheaval_node import __version__
from upheaval_node.cluster.rules import OWN, rules_named
from upheaval_node.errors import NodeError
from upheaval_node.types import MS


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The cluster that a user asks for. With a `run_id`, a cluster that was made, with everything that was chosen for
    it.

    Paths are texts, and absolute in a made cluster, because any later process has to find them.
    """

    members: MemberCount = 3
    components: Components = TOGETHER
    profile: Profile = "test"
    sync_level: SyncLevel = 0
    service: str = WORKBENCH_SERVICE
    """A shipped service, or `module:Class`; for members in Java `CLASSPATH:Class`."""
    more_services: tuple[str, ...] = ()
    """Shipped services that run beside it in each member, in order of their service ids from 1 on."""
    source: FilePath = ""
    """The folder with the code of a custom service, copied into containers; empty for the current folder."""
    model: str = ""
    """`module:Class` of a model of that service, or a module with promises, in the same folder; empty for none."""
    schema: FilePath = ""
    """The SBE schema of that service's requests and answers, an XML file; empty for none."""
    client: FilePath = ""
    """`CLASSPATH:Class` in that folder: a program that serves as the bridge of all clients; empty for the
    system's own.
    """
    launcher: str = ""
    """A command that starts one member of Aeron, in `source` or else in the working directory of the image; empty for
    the harness's own program.
    """
    jvm: str = ""
    """JVM options for every member, in shell syntax."""
    ignored: tuple[str, ...] = ()
    """Patterns of names, and of paths below `source`, that are not copied into containers."""
    image: str = ""
    """The image of containers, which may contain that code; empty for the node's own image."""
    base_port: int = 0
    """The first port on this machine, with ten ports per member; 0 for free ports."""
    max_sessions: int = 0
    """The number of clients that a member accepts; 0 for the node's own limit."""
    leader_disconnect_ms: int = 0
    """How long a follower waits without its connection from the leader before it starts an election; 0: only the
    heartbeat time-out counts.
    """
    compatibility: str = OWN
    """Whose rules our node's members follow where they differ from Aeron's, as `rules_named` takes it."""
    app_version: int = 0
    """The version of the application, as `parse_app_version` encodes it; 0 for the system's default."""
    session_timeout_ms: int = 0
    """After how long without a message from a client its session is closed; 0 for the profile's time-out."""
    protocol_trace: int = 0
    """The maximum size of each process's protocol trace in bytes; 0 for no such trace."""
    tls: FilePath = ""
    """The folder of the certificates of members and clients; empty without TLS."""
    credentials: FilePath = ""
    """The credentials file of the clients that may connect; empty for everyone."""
    planted: str | None = None
    """The planted bug of the members, which then run a test build of the node; None for the normal node."""
    system: str = OWN_SYSTEM
    """The members' system, as `system_named` takes it."""
    run_id: str = ""
    python_path: tuple[FilePath, ...] = ()
    """Where members find the code of a custom service; empty when the service is shipped or part of the image."""
    version: str = __version__

    def made(self, run_id: str) -> Self:
        """The specification of a run, before a runtime chooses anything for it."""
        has_code = ":" in self.service and not (self.image and not self.source)
        return replace(
            self,
            run_id=run_id,
            source=_absolute(self.source or ("." if self.launcher and not self.image else "")),
            schema=_absolute(self.schema),
            client=_with_absolute_paths(self.client, self.source),
            tls=_absolute(self.tls),
            credentials=_absolute(self.credentials),
            python_path=(str(Path(self.source).absolute()),) if has_code else (),
        )

    @property
    def model_source(self) -> str:
        """The folder with the code of the model; empty without a model."""
        return str(Path(self.source).absolute()) if self.model else ""

    @property
    def timeouts(self) -> dict[str, int]:
        """The members' time-outs that differ from those of the profile, in nanoseconds, by the names of the node's."""
        chosen = {"leader_disconnect_ns": self.leader_disconnect_ms, "session_ns": self.session_timeout_ms}
        return {name: ms * MS for name, ms in chosen.items() if ms}

    @property
    def is_service_here(self) -> bool:
        """Whether the service's code is on this machine, and not only in an image."""
        return ":" not in self.service or bool(self.python_path)


CLUSTER_OF_THREE: Final = ClusterSpec()
"""The default cluster."""


def parse_app_version(text: str) -> int:
    """`1.2.3` in the encoding of Aeron Cluster: major << 16 | minor << 8 | patch. Raises `UsageError`."""
    parts = text.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and int(part) < 256 for part in parts):
        raise UsageError(f"version {text!r}: use major.minor.patch, each 0 to 255")
    major, minor, patch = map(int, parts)
    return major << 16 | minor << 8 | patch


def require_rules(compatibility: str) -> str:
    """The value, if it names rules. Raises `UsageError` otherwise."""
    try:
        rules_named(compatibility)
    except NodeError as error:
        raise UsageError(str(error)) from error
    return compatibility


def _with_absolute_paths(program: str, source: str) -> str:
    *entries, name = program.split(":")
    return ":".join([*(str(Path(source, entry).absolute()) for entry in entries if entry), name])


def _absolute(path: str) -> str:
    return path and str(Path(path).absolute())
