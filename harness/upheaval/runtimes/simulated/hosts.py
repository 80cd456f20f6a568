"""The hosts of a simulated cluster, and the links between them, as faults see them.

The observer looks at the hosts: their boots, what members wrote to their disks, what the disks accepted, and what links
delivered.
"""

from itertools import permutations
from typing import Final, NamedTuple, NoReturn

from upheaval.errors import UsageError
from upheaval.runtimes.simulated.cluster import INGRESS_PORT, SimulatedCluster, SimulatedMember, host_of
from upheaval.runtimes.simulated.disk import Disk
from upheaval.runtimes.simulated.links import Link as ChannelLink, LinkTraffic
from upheaval.runtimes.simulated.process import TURN_NS
from upheaval.runtimes.simulated.world import START_EPOCH_MS, START_NS
from upheaval.system import ELECTION_CLOSED, log_recording_id
from upheaval_chaos.host_faults import NOT_SIMULATED, HostFaultKind
from upheaval_chaos.target import CHANNELS, CLIENTS, INGRESS, LIMIT_PERIOD_NS, DiskWork, Link, MemoryWork, ProcessorWork
from upheaval_node.archive.archive_context import DAMAGE
from upheaval_node.archive.block_journal import LENGTH as JOURNAL_LENGTH, BlockRecord, durable_sequence, read_records
from upheaval_node.archive.catalog import FILE_NAME as CATALOG, decode_catalog
from upheaval_node.archive.segments import parse_segment_file_name, segment_file_name
from upheaval_node.files import layout
from upheaval_node.files.mark_file import OWNER_LENGTH, owner_of
from upheaval_node.protocol.frames import TYPE_DATA, walk
from upheaval_node.settings import ArchiveSettings
from upheaval_node.types import FRAME_HEADER_LENGTH, MS, NULL_POSITION

# The load is the only client.
CLIENT_HOST: Final = "client-1"
PORTS: Final = {channel: str(INGRESS_PORT + index) for index, channel in enumerate((INGRESS, *CHANNELS))}
_WRONG_LENGTH: Final = 4
_MARK: Final = layout.ARCHIVE_MARK
"""The file into which a member writes the time, about once a second."""


class _Segment(NamedTuple):
    recording_id: int
    base: int
    blocks: list[BlockRecord]

    def path_at(self, base: int) -> str:
        """The file of a segment of this recording."""
        return f"{layout.ARCHIVE_DIRECTORY}/{segment_file_name(self.recording_id, base)}"


def _durable_blocks(member: SimulatedMember) -> _Segment | None:
    """The current segment of the log, and its blocks that are certainly durable and hold more than
    padding, of which only the header is stored.

    None when there are no such blocks, as at sync level 0, or when the archive knows the end of the log: it does not
    check blocks at its start then.
    """
    recording_id = log_recording_id(member.recording_log())
    keys = map(parse_segment_file_name, member.disk.names(layout.ARCHIVE_DIRECTORY))
    bases = [key[1] for key in keys if key is not None and key[0] == recording_id]
    if recording_id is None or not bases:
        return None
    segment = _Segment(recording_id, max(bases), [])
    file = member.disk.find(segment.path_at(segment.base))
    records = read_records(file.read(file.size - JOURNAL_LENGTH, JOURNAL_LENGTH))
    segment.blocks.extend(
        record
        for record in records
        if record.length > FRAME_HEADER_LENGTH and record.sequence < durable_sequence(records)
    )
    return segment if segment.blocks and not _is_ended(member, recording_id) else None


def _wrong_places(member: SimulatedMember, archive: ArchiveSettings) -> list[tuple[str, int]]:
    """The places in the log, by file and offset, of bytes that the member must find wrong at its next start, in order.

    The archive checks the certainly durable blocks of the current segment. With checksums a start also finds wrong
    bytes in earlier segments, as far as it replays them.
    """
    current = _durable_blocks(member)
    if current is None:
        return []
    places: list[tuple[str, int]] = []
    if archive.replay_checksum:
        control = member.control_status()
        # A start takes the snapshot of a standby, too.
        from_position = max(control.snapshot_position, control.standby_position)
        for base in range(0, current.base, archive.segment_length):
            path = current.path_at(base)
            if member.disk.has(path):
                places += [
                    (path, offset + FRAME_HEADER_LENGTH)
                    for offset, header in walk(member.disk.read(path)[: archive.segment_length])
                    if base + offset >= from_position
                    and header.type == TYPE_DATA
                    and header.frame_length >= FRAME_HEADER_LENGTH + _WRONG_LENGTH
                ]
    path = current.path_at(current.base)
    return [*places, *((path, block.start - current.base + FRAME_HEADER_LENGTH) for block in current.blocks)]


def _is_ended(member: SimulatedMember, recording_id: int) -> bool:
    catalog = member.disk.find(f"{layout.ARCHIVE_DIRECTORY}/{CATALOG}")
    entries = decode_catalog(catalog.read(0, catalog.size)).entries
    return any(entry.recording_id == recording_id and entry.stop_position != NULL_POSITION for entry in entries)


def channels_of(cluster: SimulatedCluster) -> list[ChannelLink]:
    """All channels from one member to another."""
    pairs = permutations([member.host for member in cluster.members], 2)
    return [cluster.fabric.channel(*pair, PORTS[channel]) for pair in pairs for channel in CHANNELS]


def host_of_end(end: int) -> str:
    """The host of one end of a link."""
    return CLIENT_HOST if end == CLIENTS else host_of(end)


class SimulatedHosts:
    """Implements `upheaval_chaos.target.Hosts`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    # --- injector ---

    def cut_power(self, member_id: int) -> None:
        """End the member's process. Data that its disk had not synced may be lost."""
        self._cluster.members[member_id].end(power_cut=True)

    def move_clock(self, member_id: int, milliseconds: int) -> None:
        """Move the wall clock of the member's host forward, or back."""
        self._cluster.move_clock(member_id, milliseconds)

    def fill_disk(self, member_id: int) -> None:
        """Make every change fail that needs space."""
        self._disk(member_id).is_full = True

    def free_disk(self, member_id: int) -> None:
        """Let changes that need space succeed again."""
        self._disk(member_id).is_full = False

    def slow_disk(self, member_id: int, latency_ms: int) -> None:
        """Add this latency to every sync that begins from now on."""
        self._disk(member_id).extra_latency_ns = latency_ms * MS

    def limit_processor(self, member_id: int, percent: int) -> None:
        """Let the member's duty cycles begin only in this share of each period, as those of a busy process."""
        member = self._cluster.members[member_id]
        member.share_ns = LIMIT_PERIOD_NS * percent // 100
        if member.process is not None:
            member.process.share_ns = member.share_ns

    def limit_memory(self, member_id: int, megabytes: int) -> NoReturn:  # noqa: ARG002 - refused
        """Raises `UsageError`: simulated members have no memory of their own."""
        raise UsageError(NOT_SIMULATED[HostFaultKind.MEMORY_LIMIT])

    def expect_no_end(self, member_id: int) -> NoReturn:  # noqa: ARG002 - refused
        """Raises `UsageError`, as there is no such limit."""
        raise UsageError(NOT_SIMULATED[HostFaultKind.MEMORY_LIMIT])

    def end_in_change(self, member_id: int, changes: int, *, loses_power: bool) -> None:
        """End the member, alone or with its host's power, after that many more file changes."""
        member = self._cluster.members[member_id]
        member.disk.end_process_at(changes, lambda: member.end(power_cut=loses_power))

    def end_in_no_change(self, member_id: int) -> None:
        """Cancel `end_in_change`, unless the end has already come."""
        self._disk(member_id).disarm()

    def change_bytes(self, member_id: int, percent: int) -> None:
        """Restart the member with a few bytes of its log changed that it must find wrong, at `percent` of the way from
        the first to the last.
        """
        member = self._cluster.members[member_id]
        places = _wrong_places(member, self._cluster.settings.archive)
        member.end(power_cut=False)
        if places:
            path, offset = places[(len(places) - 1) * percent // 100]
            right = member.disk.find(path).read(offset, _WRONG_LENGTH)
            member.disk.change_bytes(path, offset, bytes(byte ^ 0xFF for byte in right))
        member.start()

    def restore_bytes(self, member_id: int) -> None:
        """End the member, which may have read the wrong bytes, and restore all changed bytes on its disk."""
        self._cluster.members[member_id].end(power_cut=False)
        self._disk(member_id).restore_bytes()

    # --- observer ---

    is_exact = True

    def has_durable_log(self, member_id: int) -> bool:
        """Decided by the journal of the last blocks."""
        return _durable_blocks(self._cluster.members[member_id]) is not None

    def damage_reports(self, member_id: int) -> int:
        """Counted from the errors that its processes reported."""
        return sum(log.counts.get(DAMAGE, 0) for log in self._cluster.members[member_id].errors)

    def takes_part(self, member_id: int) -> bool:
        """Decided by its counters."""
        status = self._cluster.members[member_id].status()
        return status.alive and status.election_state == ELECTION_CLOSED

    def boot(self, member_id: int) -> str:
        """The boot as the network knows it: a power cut ends the old one."""
        return self._cluster.fabric.boot_of(host_of(member_id))

    def clock_lead_ms(self, member_id: int) -> tuple[int, int] | None:
        """Compares the time stamp in the member's mark file with the true time of that write."""
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
        """The counts of the disk."""
        disk = self._disk(member_id)
        syncs = tuple(disk.syncs)
        return DiskWork(disk.changes, disk.unfinished, disk.refused, disk.grown, syncs, syncs, disk.power_losses)

    def processor_work(self, member_id: int) -> list[ProcessorWork]:
        """The duty cycles of its process, each as long as two are apart at least. A period counts when it holds one
        back.
        """
        process = self._cluster.members[member_id].process
        if process is None:
            return [ProcessorWork(0, 0, 0)]
        return [ProcessorWork(process.cycles * TURN_NS, process.held_back, process.held_back)]

    def memory_work(self, member_id: int) -> MemoryWork:  # noqa: ARG002 - not observed
        """None: no kernel counts it."""
        return MemoryWork(frozenset(), 0, 0)

    def has_room(self, member_id: int) -> bool:
        """Uses the check that the member's writes meet."""
        return not self._disk(member_id).is_full

    def watch(self, link: Link) -> LinkTraffic:
        """Watch the whole link, or one channel of it."""
        port = PORTS[link.channel] if link.channel else ""
        return self._cluster.fabric.watch(host_of_end(link.source), host_of_end(link.target), port)

    def _disk(self, member_id: int) -> Disk:
        return self._cluster.members[member_id].disk
