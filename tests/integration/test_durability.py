"""What leaves a member has been made durable before, as seen from outside: by its system calls."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import strace_log
from support.strace_log import Event, Sent, SyncBegun, Synced, Written
from support.valid import require_valid
from upheaval.checkers.judge import verify_run
from upheaval.runtimes.process_load import ProcessLoad
from upheaval.workload import WorkloadSettings
from upheaval_node.errors import DecodeError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import Message

from .conftest import NewCluster

pytestmark = [pytest.mark.heavy]

TIMEOUT_S = 240.0
SCHEMA_AND_VERSION = struct.pack("<HH", cm.SCHEMA.table.schema_id, cm.SCHEMA.table.version)
MESSAGE_HEADER_LENGTH = 8
NODE_STATE_TERM = range(24, 32)


def messages_in(data: bytes) -> Iterator[Message]:
    """The cluster messages somewhere in sent bytes: found by schema id and version, whatever frames they are in."""
    at = data.find(SCHEMA_AND_VERSION)
    while at >= 0:
        try:
            message = cm.SCHEMA.decode(data[max(at - 4, 0) :])
        except DecodeError:
            message = None
        if message is not None:
            yield message
        at = data.find(SCHEMA_AND_VERSION, at + 1)


def framed_length(data: bytes) -> int:
    """How far whole frames reach in the log: of padding only the header is written, its position counts in full."""
    offset = 0
    while offset + 4 <= len(data):
        length = struct.unpack_from("<i", data, offset)[0]
        if length <= 0:
            break
        offset += length + 31 & -32
    return max(offset, len(data))


class Durable:
    """What one member has written, and what of it a sync that has returned covers."""

    def __init__(self) -> None:
        self.synced_log = 0
        self.synced_term = -1
        self.log_syncs = 0
        self._written_log = 0
        self._written_term = -1
        self._begun: dict[str, list[tuple[int, int]]] = {}

    def see(self, event: Event) -> None:
        match event:
            case Written(path, offset, data) if path.endswith(".rec"):
                base = int(Path(path).stem.partition("-")[2])
                self._written_log = max(self._written_log, base + offset + framed_length(data))
            case Written(path, offset, data) if path.endswith("node-state.dat"):
                self._see_term(offset, data)
            case SyncBegun(path):
                self._begun.setdefault(path, []).append((self._written_log, self._written_term))
            case Synced(path) if self._begun.get(path):
                log, term = self._begun[path].pop(0)
                if path.endswith(".rec"):
                    self.log_syncs += 1
                    self.synced_log = max(self.synced_log, log)
                elif path.endswith("node-state.dat"):
                    self.synced_term = max(self.synced_term, term)
            case _:
                pass

    def _see_term(self, offset: int, data: bytes) -> None:
        if offset <= NODE_STATE_TERM.start and offset + len(data) >= NODE_STATE_TERM.stop:
            at = NODE_STATE_TERM.start - offset
            self._written_term = struct.unpack_from("<q", data, at)[0]


@pytest.mark.parametrize("sync_level", [pytest.param(0, marks=pytest.mark.nightly), 1, 2])
def test_positions_and_votes_leave_only_after_the_sync_that_covers_them(
    new_cluster: NewCluster, tmp_path: Path, sync_level: int
) -> None:
    assert strace_log.is_installed(), "this test needs strace: apt-get install strace"
    cluster = new_cluster(sync_level=sync_level)
    outputs = [tmp_path / f"strace-{member.member_id}" for member in cluster.members]
    for member, output in zip(cluster.members, outputs, strict=True):
        member.wrapper = strace_log.command(output)
    leader = cluster.up(TIMEOUT_S)
    settings = WorkloadSettings(slots=8, sessions=1, rate=300)
    with ProcessLoad(cluster, settings) as load:
        load.wait_until_acknowledged(load.counts.ok + 150, TIMEOUT_S)
        cluster.member(leader).kill()
        cluster.wait_until_leader(TIMEOUT_S, other_than=leader)
        load.wait_until_acknowledged(load.counts.ok + 150, TIMEOUT_S)
        cluster.member(leader).wrapper = strace_log.command(tmp_path / "strace-again")
        cluster.member(leader).start()
        cluster.wait_until_caught_up(leader, TIMEOUT_S)
        load.wait_until_acknowledged(load.counts.ok + 50, TIMEOUT_S)
    assert cluster.converge(TIMEOUT_S).reached
    cluster.down()
    require_valid(verify_run(cluster.folder))

    positions, votes, log_syncs = 0, 0, 0
    for output in outputs:
        durable = Durable()
        for event in strace_log.read_events(output):
            durable.see(event)
            if not isinstance(event, Sent):
                continue
            for message in messages_in(event.data):
                if isinstance(message, cm.AppendPosition) and sync_level > 0:
                    assert message.log_position <= durable.synced_log, message
                    positions += message.log_position > 0
                if isinstance(message, cm.Vote) and message.vote and sync_level > 0:
                    assert message.candidate_term_id <= durable.synced_term, message
                    votes += 1
        log_syncs += durable.log_syncs
    if sync_level > 0:
        assert positions > 20
        assert votes >= 2
        assert log_syncs > 20
    else:
        assert log_syncs == 0
