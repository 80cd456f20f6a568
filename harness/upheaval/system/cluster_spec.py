"""What a cluster is to be, as one value: scenarios, tests, commands and runtimes say it with this and nothing else."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from upheaval.records import OWN_SYSTEM, TOGETHER, Components, MemberCount, Profile, SyncLevel
from upheaval.records.jsonfields import FilePath
from upheaval.workload import WORKBENCH_SERVICE
from upheaval_node import __version__


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A cluster that is wished for; with a `run_id`, one that was made, and what was chosen for it.

    Paths are texts, absolute in one that was made, because any later process has to find them.
    """

    members: MemberCount = 3
    components: Components = TOGETHER
    profile: Profile = "test"
    sync_level: SyncLevel = 0
    service: str = WORKBENCH_SERVICE
    """A shipped one, or `module:Class`; of members in Java `CLASSPATH:Class`."""
    more_services: tuple[str, ...] = ()
    """What runs beside it in each member, as shipped services, in order of their service ids from 1 on."""
    source: FilePath = ""
    """The folder with the code of a custom service, which containers get a copy of; empty for the current one."""
    model: str = ""
    """`module:Class` of a model of that service, or a module with promises, in the same folder; empty for none."""
    schema: FilePath = ""
    """The SBE schema of that service's requests and answers, an XML file; empty for none."""
    client: FilePath = ""
    """`CLASSPATH:Class` in that folder: a program that is the bridge of all clients; empty for the system's own."""
    launcher: str = ""
    """A command that starts one member of Aeron, in place of the harness's own program; empty for that."""
    jvm: str = ""
    """Options of Java's for every member, as a shell reads them."""
    ignored: tuple[str, ...] = ()
    """Patterns of names, and of paths below `source`, that containers do not get."""
    image: str = ""
    """The image of containers, which may bring that code instead; empty for the node's own."""
    base_port: int = 0
    """The first of ten ports a member on this machine; 0 for free ones."""
    max_sessions: int = 0
    """How many clients a member lets in; 0 for the node's own limit."""
    leader_disconnect_ms: int = 0
    """How long a follower does without its connection from the leader before it elects another one; 0: it goes by the
    heartbeat time-out alone."""
    protocol_trace: int = 0
    """How many bytes the protocol trace of each process may take; 0 for no such trace."""
    tls: FilePath = ""
    """The folder of the certificates of members and clients; empty without TLS."""
    credentials: FilePath = ""
    """The credentials file of those who may connect; empty for everyone."""
    planted: str | None = None
    """The bug of a test build of the node that the members are; None for the node of the product."""
    system: str = OWN_SYSTEM
    """What the members are, as `system_named` takes it."""
    run_id: str = ""
    python_path: tuple[FilePath, ...] = ()
    """Where the members find the code of a custom service; nowhere when it is shipped or the image brings it."""
    version: str = __version__

    def made(self, run_id: str) -> Self:
        """The cluster of a run, which nothing has been chosen for yet."""
        has_code = ":" in self.service and not (self.image and not self.source)
        return replace(
            self,
            run_id=run_id,
            source=_absolute(self.source or ("." if self.launcher else "")),
            schema=_absolute(self.schema),
            client=_with_absolute_paths(self.client, self.source),
            tls=_absolute(self.tls),
            credentials=_absolute(self.credentials),
            python_path=(str(Path(self.source).absolute()),) if has_code else (),
        )

    @property
    def model_source(self) -> str:
        """The folder with the code of the model; empty without one."""
        return str(Path(self.source).absolute()) if self.model else ""

    @property
    def is_service_here(self) -> bool:
        """Whether the code of its service is on this machine, not in an image only."""
        return ":" not in self.service or bool(self.python_path)


CLUSTER_OF_THREE: Final = ClusterSpec()
"""The cluster of a user who asks for nothing else."""


def _with_absolute_paths(program: str, source: str) -> str:
    *entries, name = program.split(":")
    return ":".join([*(str(Path(source, entry).absolute()) for entry in entries if entry), name])


def _absolute(path: str) -> str:
    return path and str(Path(path).absolute())
