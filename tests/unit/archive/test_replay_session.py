"""One replay against a publication that takes a block, holds it back or has no receiver, as the test says."""

from typing import cast

from support.memory_storage import MemoryStorage
from upheaval_node.archive.catalog import RecordingEntry
from upheaval_node.archive.replay import ReplayLimit, ReplaySession, ReplayState
from upheaval_node.archive.segments import SegmentReader, SegmentWriter
from upheaval_node.media.api import BACK_PRESSURED, NOT_CONNECTED, Publication
from upheaval_node.protocol.frames import FLAGS_UNFRAGMENTED, TYPE_DATA, DataHeader
from upheaval_node.settings import KIB
from upheaval_node.types import MAX_POSITION, NEVER_NS, Now, S

LENGTH = 64


class Outlet:
    """What a replay uses of a publication."""

    channel = "aeron:tcp?endpoint=b:1"
    error = None

    def __init__(self) -> None:
        self.result = LENGTH

    @property
    def is_connected(self) -> bool:
        return self.result != NOT_CONNECTED

    def offer_frames(self, block: bytearray) -> int:
        return self.result

    def close(self) -> None:
        pass


def replay(outlet: Outlet) -> ReplaySession:
    entry = RecordingEntry(0, 0, 0, 0, LENGTH, 0, 64 * KIB, 64 * KIB, 1408, 7, 100, "a", "a", "a")
    storage = MemoryStorage()
    writer = SegmentWriter(storage, "archive", entry, 0, 0)
    frame = DataHeader(LENGTH, FLAGS_UNFRAGMENTED, TYPE_DATA, 0, 7, 100, 0).pack() + b"x" * 32
    writer.write(frame, LENGTH)
    return ReplaySession(
        1,
        0,
        position=0,
        limit=ReplayLimit(MAX_POSITION, entry, None, None),
        reader=SegmentReader(storage, "archive", entry),
        publication=cast(Publication, outlet),
        io_max_length=64 * KIB,
        connect_timeout_ns=5 * S,
    )


def test_a_replay_that_is_held_back_after_a_lost_connection_asks_for_no_turns() -> None:
    """And the next lost connection gets the whole time again."""
    outlet = Outlet()
    session = replay(outlet)
    for seconds, result, deadline in (
        (1, BACK_PRESSURED, NEVER_NS),
        (2, NOT_CONNECTED, 7 * S),
        (3, BACK_PRESSURED, NEVER_NS),
        (60, NOT_CONNECTED, 65 * S),
    ):
        outlet.result = result
        session.do_work(Now(seconds * S, 0))
        assert session.deadline_ns == deadline
    states = [session.state]
    session.do_work(Now(65 * S, 0))
    session.do_work(Now(65 * S, 0))
    assert [*states, session.state] == [ReplayState.REPLAY, ReplayState.DONE]
