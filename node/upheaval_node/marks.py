"""The mark files of a member's components: made at the start, kept young while the component runs.

Which component has which streams and texts in its mark file is Aeron's. Whether another process is alive is not
decided here: the runtime holds locks for that, so a mark that looks active is taken over.
"""

import contextlib
from dataclasses import dataclass
from typing import Final

from upheaval_node.bell import Bell
from upheaval_node.errors import StorageError
from upheaval_node.files import layout
from upheaval_node.files.mark_file import ArchiveMarkHeader, ClusterMarkHeader, Header, MarkFile
from upheaval_node.member_config import MemberConfig
from upheaval_node.ports import Storage
from upheaval_node.protocol.cluster_mark_messages import ClusterComponentType
from upheaval_node.protocol.constants import (
    ARCHIVE_CONTROL_STREAM_ID,
    ARCHIVE_LOCAL_CONTROL_CHANNEL,
    INGRESS_STREAM_ID,
    MODULE_STREAM_ID,
    RECORDING_EVENTS_STREAM_ID,
    SERVICE_CONTROL_CHANNEL,
    SERVICE_STREAM_ID,
)
from upheaval_node.types import NULL_MEMBER_ID, NULL_VALUE, MemberId, Now, S

ACTIVITY_INTERVAL_NS: Final = S


Mark = MarkFile[ArchiveMarkHeader] | MarkFile[ClusterMarkHeader]


class MarkKeeper:
    """Keeps the mark files of one process. Implements `ports.Agent`."""

    def __init__(self, marks: list[Mark]) -> None:
        self._marks = marks
        self._next_ns = 0
        self.bell: Bell | None = Bell(covers_all=True)

    def record_error(self, now: Now, text: str) -> None:
        """Write to the error log of the first mark file, which is the process's main component."""
        self._marks[0].error_log.record(now.epoch_ms, text)

    def signal_ready(self, now_ms: int) -> None:
        """All components of this process have started: their mark files become valid."""
        for mark in self._marks:
            mark.signal_ready(now_ms)

    def signal_failed_start(self) -> None:
        """A component could not start: the mark files are given up and closed."""
        for mark in self._marks:
            mark.signal_failed_start()
            mark.close()

    def do_work(self, now: Now) -> int:
        """Write `activityTimestamp` once a second; a disk that refuses is passed over."""
        if now.ns < self._next_ns:
            return 0
        self._next_ns = now.ns + ACTIVITY_INTERVAL_NS
        for mark in self._marks:
            # The archive decides whether a full or broken disk ends the member.
            with contextlib.suppress(StorageError):
                mark.update_activity(now.epoch_ms)
        return 0

    def next_deadline_ns(self) -> int:
        """When the next time stamp is due."""
        return self._next_ns

    def close(self) -> None:
        """An orderly end: activity -1."""
        for mark in self._marks:
            mark.signal_terminated()
            mark.close()


@dataclass(frozen=True, slots=True)
class MarkMaker:
    """Makes the mark files of one node. Each method raises as `MarkFile` does."""

    storage: Storage
    folder: str
    cluster_id: int
    pid: int
    now_ms: int

    def archive(self, archive_id: int, endpoint: str) -> Mark:
        """The `archive-mark.dat` of an archive that listens on `endpoint`."""
        header = ArchiveMarkHeader(
            pid=self.pid,
            control_stream_id=ARCHIVE_CONTROL_STREAM_ID,
            local_control_stream_id=ARCHIVE_CONTROL_STREAM_ID,
            events_stream_id=RECORDING_EVENTS_STREAM_ID,
            archive_id=archive_id,
            control_channel=f"aeron:tcp?endpoint={endpoint}",
            local_control_channel=ARCHIVE_LOCAL_CONTROL_CHANNEL,
            aeron_directory=self._driver_directory,
        )
        return self._file(layout.ARCHIVE_MARK, header)

    def backup(self) -> Mark:
        """The mark file of a backup agent, at the path where a member has that of its consensus module."""
        header = ClusterMarkHeader(
            component_type=ClusterComponentType.BACKUP,
            pid=self.pid,
            archive_stream_id=ARCHIVE_CONTROL_STREAM_ID,
            service_stream_id=NULL_VALUE,
            consensus_module_stream_id=NULL_VALUE,
            ingress_stream_id=NULL_VALUE,
            member_id=NULL_MEMBER_ID,
            service_id=NULL_VALUE,
            cluster_id=self.cluster_id,
            aeron_directory=self._driver_directory,
        )
        return self._file(layout.CLUSTER_MARK, header)

    def module(self, config: MemberConfig) -> Mark:
        """The `cluster-mark.dat` of a member's consensus module."""
        header = ClusterMarkHeader(
            component_type=ClusterComponentType.CONSENSUS_MODULE,
            pid=self.pid,
            archive_stream_id=ARCHIVE_CONTROL_STREAM_ID,
            service_stream_id=SERVICE_STREAM_ID,
            consensus_module_stream_id=MODULE_STREAM_ID,
            ingress_stream_id=INGRESS_STREAM_ID,
            member_id=config.member_id,
            service_id=NULL_VALUE,
            cluster_id=self.cluster_id,
            aeron_directory=self._driver_directory,
            control_channel=SERVICE_CONTROL_CHANNEL,
            ingress_channel=f"aeron:tcp?endpoint={config.endpoints.ingress}",
            authenticator=config.settings.cluster.authenticator or "default",
        )
        return self._file(layout.CLUSTER_MARK, header)

    def service(self, service_id: int, member_id: MemberId = NULL_MEMBER_ID) -> Mark:
        """The `cluster-mark-service-N.dat` of a service's container; `member_id` is -1 on a standby."""
        header = ClusterMarkHeader(
            component_type=ClusterComponentType.CONTAINER,
            pid=self.pid,
            archive_stream_id=ARCHIVE_CONTROL_STREAM_ID,
            service_stream_id=SERVICE_STREAM_ID,
            consensus_module_stream_id=MODULE_STREAM_ID,
            ingress_stream_id=NULL_VALUE,
            member_id=member_id,
            service_id=service_id,
            cluster_id=self.cluster_id,
            aeron_directory=self._driver_directory,
            control_channel=SERVICE_CONTROL_CHANNEL,
            service_name=f"clustered-service-{self.cluster_id}-{service_id}",
        )
        return self._file(layout.service_mark(service_id), header)

    @property
    def _driver_directory(self) -> str:
        """Where Aeron's tools look for `cnc.dat`: with the node's folder, because they run anywhere."""
        return f"{self.folder}/{layout.DRIVER_DIRECTORY}"

    def _file(self, path: str, header: Header) -> MarkFile[Header]:
        return MarkFile(self.storage, path, header, now_ms=self.now_ms, liveness_timeout_ms=None)
