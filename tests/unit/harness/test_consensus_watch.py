"""The file of what forwarders saw, written from datagrams and read again: by checkers, and as a protocol trace."""

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from support.consensus_frames import datagrams_of
from upheaval.execution.consensus_watch import ConsensusWatch, LinkWatch
from upheaval.records import Manifest, RunFolder, messages_of, plain_lines, read_entries, watches_of
from upheaval.records.protocol_view import Choice, chosen
from upheaval_chaos.any_proxy import AnyProxy
from upheaval_chaos.datagram_proxy import DatagramProxy
from upheaval_chaos.seen_datagrams import carried_by
from upheaval_chaos.stream_tap import HOLES_MAX
from upheaval_chaos.toxic_links import ProxyPlace
from upheaval_chaos.toxics import UPSTREAM
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import Message

PLACES = [ProxyPlace(0, 1, "consensus"), ProxyPlace(1, 0, "consensus"), ProxyPlace(0, 1, "log")]


class Forwarded:
    """A run of two members whose forwarders carry what a test says, and the watch on them."""

    def __init__(self, path: Path) -> None:
        self.run = RunFolder(path)
        self.run.create(Manifest("run-1", "process", 2, "test", 0, system="aeron:1.51.0"))
        self.ns = 0
        self.watch = ConsensusWatch(self.run.consensus_file, PLACES)
        self.proxies: dict[str, AnyProxy] = {
            place.name: DatagramProxy(place.name, "", "", Random(1)) for place in PLACES
        }
        self._ends = dict.fromkeys((0, 1), 0)

    def link(self, source: int) -> LinkWatch:
        found = self.watch.watch_of(f"{source}-to-{1 - source}-consensus")
        assert found is not None
        return found

    def carry(self, source: int, *messages: Message | bytes, is_lost: bool = False) -> None:
        for message in messages:
            *setups, data = datagrams_of(message, self._ends[source], source)
            self._ends[source] += len(data)
            for setup in setups:
                self._pass(source, setup, False)
            self._pass(source, data, is_lost)

    def _pass(self, source: int, data: bytes, is_lost: bool) -> None:
        link, traffic = self.link(source), self.proxies[f"{source}-to-{1 - source}-consensus"].traffic[UPSTREAM]
        traffic.received += len(data)
        link.on_received(data, self.ns)
        if not is_lost:
            traffic.sent += len(data)
            link.on_sent(data, self.ns)

    def close(self) -> list[tuple[int, str, str, int | None]]:
        """Each message: whose, whether sent or received, which, and its position."""
        self.watch.close(carried_by(self.proxies))
        found = []
        for member_id, event in messages_of(self.run):
            position = event.fields.get("log_position")
            assert position is None or isinstance(position, int)
            found.append((member_id, event.event, str(event.fields["message"]), position))
        return found


@pytest.fixture
def forwarded(tmp_path: Path) -> Forwarded:
    return Forwarded(tmp_path)


def test_what_came_in_was_sent_and_what_went_out_was_received(forwarded: Forwarded) -> None:
    forwarded.carry(0, cm.RequestVote(0, 64, 1, 0, 1))
    forwarded.carry(1, cm.Vote(1, 0, 64, 0, 1, True), is_lost=True)
    assert forwarded.close() == [
        (0, "send", "RequestVote", 64),
        (1, "receive", "RequestVote", 64),
        (1, "send", "Vote", 64),
    ]
    (watch,) = watches_of(forwarded.run.read_consensus())
    assert [link.is_whole for link in watch.links] == [True, True]


def test_positions_are_told_now_and_then_and_a_report_before_the_commit_that_counts_it(forwarded: Forwarded) -> None:
    for position in range(64, 640, 64):
        forwarded.carry(1, cm.AppendPosition(1, position, 1, 0))
        forwarded.carry(0, cm.CommitPosition(1, position, 0))
    forwarded.carry(0, cm.CommitPosition(2, 64, 0))
    forwarded.carry(1, cm.AppendPosition(2, 128, 1, 0), cm.AppendPosition(2, 192, 1, 0))
    forwarded.ns = 10**9
    forwarded.carry(0, cm.CommitPosition(2, 192, 0))
    told = forwarded.close()
    commits = [(at, each) for at, each in enumerate(told) if each[1:3] == ("send", "CommitPosition")]
    assert [each[3] for _, each in commits] == [64, 576, 64, 192]
    for at, (_, _, _, position) in (commits[0], commits[1], commits[3]):
        assert (0, "receive", "AppendPosition", position) in told[:at]


def test_a_report_does_not_cover_a_commit_that_passed_before_it(forwarded: Forwarded) -> None:
    forwarded.carry(1, cm.AppendPosition(1, 64, 1, 0), cm.AppendPosition(1, 96, 1, 0))
    forwarded.carry(0, cm.CommitPosition(1, 64, 0))
    forwarded.ns = 1
    forwarded.carry(0, cm.CommitPosition(1, 4096, 0))
    forwarded.ns = 2
    forwarded.carry(1, cm.AppendPosition(1, 4096, 1, 0))
    told = [(event, position) for member, event, _, position in forwarded.close() if member == 0]
    assert told.index(("receive", 96)) < told.index(("send", 4096)) < told.index(("receive", 4096))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.sampled_from([0, 60_000_000])), max_size=40))
def test_what_is_written_is_in_the_order_in_which_it_passed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[bool, int, int]]
) -> None:
    forwarded = Forwarded(tmp_path_factory.mktemp("run"))
    reached = committed = 0
    passed: dict[tuple[str, int | None], int] = {}
    for turn, (is_report, ahead, pause_ns) in enumerate(steps):
        forwarded.ns += pause_ns
        if is_report:
            reached += 32 * ahead
            forwarded.carry(1, cm.AppendPosition(1, reached, 1, 0))
            passed.setdefault(("receive", reached), turn)
        else:
            committed = max(committed, reached) + 32 * (ahead == 3)
            forwarded.carry(0, cm.CommitPosition(1, committed, 0))
            passed["send", committed] = turn
    told = [(event, position) for member, event, _, position in forwarded.close() if member == 0]
    commits = [(at, passed[each]) for at, each in enumerate(told) if each[0] == "send"]
    for at, each in enumerate(told):
        if each[0] == "receive":
            assert all(passed[each] < commit for later, commit in commits if later > at)


def test_a_position_that_goes_back_is_told(forwarded: Forwarded) -> None:
    forwarded.carry(0, *(cm.CommitPosition(1, position, 0) for position in (64, 128, 96, 160)))
    sent = [position for _, event, _, position in forwarded.close() if event == "send"]
    assert sent == [64, 128, 96, 160]


@pytest.mark.parametrize(("lost", "is_whole"), [("nothing", True), ("sight", False), ("frame", False)])
def test_what_was_not_seen_is_told_at_the_end(lost: str, is_whole: bool, forwarded: Forwarded) -> None:
    forwarded.carry(0, cm.CommitPosition(1, 64, 0))
    if lost == "sight":
        forwarded.proxies["0-to-1-consensus"].traffic[UPSTREAM].received += 1
    elif lost == "frame":
        forwarded._ends[0] += 64
    forwarded.carry(0, cm.CommitPosition(1, 128, 0))
    forwarded.close()
    (watch,) = watches_of(forwarded.run.read_consensus())
    assert [link.is_whole for link in watch.links] == [is_whole, True]


@pytest.mark.parametrize(("losses", "is_whole"), [(1, True), (HOLES_MAX, True), (HOLES_MAX + 1, False)])
def test_what_is_lost_on_its_way_is_known_until_there_is_too_much_of_it(
    losses: int, is_whole: bool, forwarded: Forwarded
) -> None:
    """What is sent again in a hole that was given up cannot be known to be new to the target."""
    for number in range(losses):
        forwarded.carry(0, cm.CommitPosition(1, 64 * number, 0))
        forwarded.carry(0, cm.CommitPosition(1, 64 * number + 32, 0), is_lost=True)
    forwarded.carry(0, cm.CommitPosition(1, 64 * losses, 0))
    forwarded.close()
    (watch,) = watches_of(forwarded.run.read_consensus())
    assert watch.links[0].is_whole is is_whole


def test_what_is_no_message_is_garbage(forwarded: Forwarded) -> None:
    forwarded.carry(0, b"not a message", cm.CommitPosition(1, 64, 0))
    assert [each[2] for each in forwarded.close()] == ["CommitPosition", "CommitPosition"]
    (watch,) = watches_of(forwarded.run.read_consensus())
    assert watch.links[0].garbage == 2


def test_only_forwarders_of_consensus_are_looked_at(forwarded: Forwarded) -> None:
    assert forwarded.watch.watch_of("0-to-1-log") is None
    forwarded.close()
    assert [event.event for event in forwarded.run.read_consensus()] == ["watch-begin", "watch-end"]


def test_the_trace_of_a_run_shows_messages_and_the_states_that_members_traced(forwarded: Forwarded) -> None:
    folder = forwarded.run.member(0)
    folder.path.mkdir()
    state = {"ts": 1, "event": "election_state", "state": "CANVASS", "component": "all"}
    folder.trace.write_text(json.dumps(state) + "\n")
    forwarded.ns = 2
    forwarded.carry(0, cm.RequestVote(0, 64, 1, 0, 1))
    forwarded.close()
    entries = [*read_entries(forwarded.run)]
    assert [(each.member_id, each.event, each.message) for each in entries] == [
        (0, "election_state", ""),
        (0, "send", "RequestVote"),
        (1, "receive", "RequestVote"),
    ]
    _, sent, received = plain_lines(chosen(entries, Choice()))
    assert "send RequestVote to member 1  logLeadershipTermId=0|logPosition=64|candidateTermId=1" in sent
    assert "receive RequestVote  logLeadershipTermId=0" in received
