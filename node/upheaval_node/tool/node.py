"""The tool's interface to a node: its files, and while it runs its counters and its control streams.

Implemented by a runtime: `disk.DiskNode` on this machine, the simulated runtime for its members. Paths are those of the
node's machine, texts joined by slashes. Every failed read raises `StorageError`.
"""

from typing import Final, Protocol

from upheaval_node.archive.folder import Folder
from upheaval_node.counters import Counters
from upheaval_node.files.mark_file import ClusterMarkHeader
from upheaval_node.protocol.cluster_messages import ClusterMembersExtendedResponse, ClusterMembersResponse

RECORDING_LOG: Final = "recording.log"
MARK: Final = "cluster-mark.dat"
LINK: Final = "cluster-mark.lnk"
SERVICE_MARK_PREFIX: Final = "cluster-mark-service-"

MembersAnswer = ClusterMembersExtendedResponse | ClusterMembersResponse


class Node(Protocol):
    """`cluster_dir` is the folder that the tool was given."""

    @property
    def cluster_dir(self) -> str:
        """The folder with the node's recording log and, most often, its mark files."""

    def now_ms(self) -> int:
        """The wall clock, in epoch milliseconds."""

    # --- files

    def read(self, path: str) -> bytes | None:
        """The whole content of a file; None if it does not exist."""

    def names(self, directory: str) -> list[str]:
        """Sorted names in a folder; empty when it does not exist."""

    def replace(self, path: str, content: bytes) -> None:
        """Replace or create a file by a new file, a sync and a rename."""

    def write_at(self, path: str, offset: int, content: bytes) -> None:
        """Write into a file that a running component has open, and sync it."""

    def remove(self, path: str) -> None:
        """Delete a file, durably."""

    def archive(self) -> Folder | None:
        """The folder of the node's archive, or None."""

    # --- life

    def is_in_use(self, path: str, header: ClusterMarkHeader) -> bool:
        """Whether the component of this mark file runs."""

    def cnc(self, header: ClusterMarkHeader) -> tuple[str, bytes | None]:
        """Path and content of the media driver's `cnc.dat`, whether or not the driver runs."""

    def counters(self, header: ClusterMarkHeader) -> Counters | None:
        """The counters of the node's media driver, which may be set; None while it does not run."""

    def query_members(self, header: ClusterMarkHeader, timeout_ms: int) -> MembersAnswer | None:
        """The consensus module's answer to a ClusterMembersQuery; None after a time-out."""

    def wait(self, counters: Counters, counter_id: int, value: int, timeout_ms: int) -> bool:
        """Wait until a counter has a value. False after a time-out."""
