"""A replay of a service may offer to the log what a member may, which depends on the length of the log's terms."""

from pathlib import Path

import pytest

from support.built_runs import LogBuilder, write_log
from upheaval.checkers.own.replay_process import read_log
from upheaval.checkers.states.replay import LoggedMessage, Replay
from upheaval.records import RunFolder
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_node.service.api import ClientSession, Cluster, ClusteredService, SnapshotImage
from upheaval_node.service.module_proxy import longest_offer

KIB = 1024


class Offering(ClusteredService):
    """Offers as many zeros as a request says."""

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
        self.cluster = cluster

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: memoryview, position: int
    ) -> None:
        self.cluster.offer(bytes(int(payload)))


@pytest.mark.parametrize(
    ("term_length", "longest"), [(64 * KIB, 8160), (128 * KIB, 16352), (64 * KIB * KIB, 16352)], ids=str
)
def test_a_replay_refuses_what_a_member_refuses(term_length: int, longest: int) -> None:
    replay = Replay(f"{__name__}:Offering", is_own=True)
    effects = [
        replay.follow(LoggedMessage(position, pack_session_header(0, 1, 0) + str(length).encode(), term_length))
        for position, length in ((96, longest), (192, longest + 1), (288, 5))
    ]
    assert [list(map(len, effect.offers)) for effect in effects] == [[longest], [], [5]]
    assert [effect.raised for effect in effects] == ["", "UsageError", ""]
    assert replay.state().offered == 2
    assert longest_offer(term_length) == longest


def test_a_replay_that_is_asked_before_it_reads_may_offer_what_the_log_takes() -> None:
    effects = [
        Replay(f"{__name__}:Offering", is_own=True).probe(
            LoggedMessage(96, pack_session_header(0, 1, 0) + str(length).encode(), 64 * KIB)
        )
        for length in (8160, 8161)
    ]
    assert [(list(map(len, effect.offers)), effect.raised) for effect in effects] == [([8160], ""), ([], "UsageError")]


def test_the_log_of_a_run_says_how_long_its_terms_are(tmp_path: Path) -> None:
    recording = LogBuilder()
    recording.append(pack_session_header(0, 1, 0) + b"5")
    run = RunFolder(tmp_path)
    write_log(run.member(0).path, 0, b"".join(recording.blocks), session_id=1)
    assert [message.term_length for message in read_log(str(tmp_path), 0, 10_000)] == [64 * KIB]
