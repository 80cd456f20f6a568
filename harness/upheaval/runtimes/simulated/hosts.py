"""The machines under a simulated cluster, and the wires between them, as faults see them.

The observer looks at what machines did: their boots, what members wrote on their disks, what the disks took, what came
out of links.
"""

from typing import Final

from upheaval.runtimes.simulated.cluster import INGRESS_PORT, SimulatedCluster, host_of
from upheaval.runtimes.simulated.disk import Disk
from upheaval.runtimes.simulated.links import LinkTraffic
from upheaval.runtimes.simulated.world import START_EPOCH_MS, START_NS
from upheaval_chaos.target import CHANNELS, CLIENTS, INGRESS, DiskWork, Link
from upheaval_node.files import layout
from upheaval_node.files.mark_file import OWNER_LENGTH, owner_of
from upheaval_node.types import MS

# The load is the one client.
CLIENT_HOST: Final = "client-1"
PORTS: Final = {channel: str(INGRESS_PORT + index) for index, channel in enumerate((INGRESS, *CHANNELS))}
_MARK: Final = layout.ARCHIVE_MARK
"""A member writes the time into it about once a second."""


def host_of_end(end: int) -> str:
    """The host of one end of a link."""
    return CLIENT_HOST if end == CLIENTS else host_of(end)


class SimulatedHosts:
    """Implements `upheaval_chaos.target.Hosts`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    # --- injector ---

    def cut_power(self, member_id: int) -> None:
        """The member's process ends, and what its disk had not synced may be gone."""
        self._cluster.members[member_id].end(power_cut=True)

    def move_clock(self, member_id: int, milliseconds: int) -> None:
        """Set the wall clock of the member's host so much ahead, or back."""
        self._cluster.move_clock(member_id, milliseconds)

    def fill_disk(self, member_id: int) -> None:
        """Changes that need room fail from now on."""
        self._disk(member_id).is_full = True

    def free_disk(self, member_id: int) -> None:
        """Changes find room again."""
        self._disk(member_id).is_full = False

    def slow_disk(self, member_id: int, latency_ms: int) -> None:
        """Syncs that begin from now on take longer by so much."""
        self._disk(member_id).extra_latency_ns = latency_ms * MS

    def end_in_change(self, member_id: int, changes: int, *, loses_power: bool) -> None:
        """The member ends, alone or with its host's power, after so many more changes of files."""
        member = self._cluster.members[member_id]
        member.disk.end_process_at(changes, lambda: member.end(power_cut=loses_power))

    def end_in_no_change(self, member_id: int) -> None:
        """Nothing happens when it has come already."""
        self._disk(member_id).disarm()

    # --- observer ---

    def boot(self, member_id: int) -> str:
        """As the network knows it, which power leaves with everything else."""
        return self._cluster.fabric.boot_of(host_of(member_id))

    def clock_lead_ms(self, member_id: int) -> tuple[int, int] | None:
        """By the time stamp in the member's mark file and the true time at which it was written."""
        disk = self._disk(member_id)
        if not disk.has(_MARK):
            return None
        mark = disk.find(_MARK)
        if not mark.written_ns:
            return None
        written_ms = owner_of(mark.read(0, OWNER_LENGTH)).activity_timestamp_ms
        true_ms = START_EPOCH_MS + (mark.written_ns - START_NS) // MS
        return (written_ms, written_ms - true_ms) if written_ms > 0 else None

    def disk_work(self, member_id: int) -> DiskWork:
        """As the disk has counted it."""
        disk = self._disk(member_id)
        return DiskWork(disk.changes, disk.unfinished, disk.refused, disk.grown, tuple(disk.syncs), disk.power_losses)

    def watch(self, link: Link) -> LinkTraffic:
        """On the whole link, or on one channel of it."""
        port = PORTS[link.channel] if link.channel else ""
        return self._cluster.fabric.watch(host_of_end(link.source), host_of_end(link.target), port)

    def _disk(self, member_id: int) -> Disk:
        return self._cluster.members[member_id].disk
