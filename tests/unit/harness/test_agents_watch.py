"""What agents have seen, each of one member's links, as one file in the order in which it passed."""

import json
import threading
import time
import tracemalloc
from pathlib import Path
from random import Random

import pytest

from support.consensus_frames import datagrams_of
from upheaval.errors import EnvironmentFault
from upheaval.execution.agents_watch import SILENCE_S, AgentsWatch
from upheaval.records import Manifest, RunFolder, messages_of, watches_of
from upheaval.waits import wait_until
from upheaval_chaos.any_proxy import AnyProxy
from upheaval_chaos.datagram_proxy import DatagramProxy
from upheaval_chaos.datagram_ways import Watch
from upheaval_chaos.seen_datagrams import ANSWER_MAX, KEPT_MAX, SeenDatagrams
from upheaval_chaos.toxic_links import ProxyPlace
from upheaval_chaos.toxics import UPSTREAM
from upheaval_chaos.toxiproxy import ToxiproxyApi
from upheaval_node.protocol import cluster_messages as cm

PLACES = [ProxyPlace(0, 1, "consensus"), ProxyPlace(1, 0, "consensus")]


class Agent(ToxiproxyApi):
    """With one proxy that carries what a test says, and no network between."""

    def __init__(self, place: ProxyPlace) -> None:
        super().__init__("")
        self.now_ns = 0
        self.questions = 0
        self.is_gone = False
        self._turn = threading.Lock()
        proxy = DatagramProxy(place.name, "", "", Random(1))
        self._traffic = proxy.traffic[UPSTREAM]
        proxies: dict[str, AnyProxy] = {place.name: proxy}
        self.seen = SeenDatagrams(proxies)
        self._watch: Watch | None = self.seen.watch_of(place.name)

    def carry(self, ns: int, *datagrams: bytes) -> None:
        assert self._watch is not None
        with self._turn:
            for data in datagrams:
                self._traffic.received += len(data)
                self._traffic.sent += len(data)
                self._watch.on_received(data, ns)
                self._watch.on_sent(data, ns)

    def _call(self, method: str, path: str, fields: object = None) -> str:
        assert (method, path, fields) == ("POST", "/seen", None)
        if self.is_gone:
            raise EnvironmentFault("it is gone")
        with self._turn:
            told = json.dumps(self.seen.take(self.now_ns))
        self.questions += 1
        return told

    def wait_until_asked(self) -> None:
        """Everything that was carried before is taken then."""
        before = self.questions
        wait_until(lambda: self.questions > before + 1, timeout_s=240, describe=lambda: "no question comes")


class Watched:
    """A run of two members; agent N is that of member N, which sees what is sent to it."""

    def __init__(self, path: Path, silence_s: float = SILENCE_S) -> None:
        self.run = RunFolder(path)
        self.run.create(Manifest("run-1", "docker", 2, "test", 0, system="aeron:1.51.0"))
        self.agents = [Agent(place) for place in reversed(PLACES)]
        self.watch = AgentsWatch(self.run.consensus_file, PLACES, self.agents, silence_s)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_what_one_agent_tells_later_is_written_where_it_belongs(watched: Watched) -> None:
    first, second = watched.agents
    first.carry(300, *datagrams_of(cm.Vote(1, 0, 64, 0, 1, True), 0, 1))
    first.now_ns, second.now_ns = 400, 100
    first.wait_until_asked()
    second.carry(200, *datagrams_of(cm.RequestVote(0, 64, 1, 0, 1), 0, 0))
    second.now_ns = 400
    watched.watch.close()
    told = [(member_id, event.event, event.ns) for member_id, event in messages_of(watched.run)]
    assert told == [(0, "send", 200), (1, "receive", 200), (1, "send", 300), (0, "receive", 300)]
    (watch,) = watches_of(watched.run.read_consensus())
    assert [link.is_whole for link in watch.links] == [True, True]


def test_what_all_agents_know_is_written_while_the_run_goes_on(watched: Watched) -> None:
    first, second = watched.agents
    first.carry(300, *datagrams_of(cm.Vote(1, 0, 64, 0, 1, True), 0, 1))
    first.now_ns = second.now_ns = 400
    second.wait_until_asked()
    wait_until(lambda: any(messages_of(watched.run)), timeout_s=240, describe=lambda: "nothing is written")
    assert [watch.end_ns for watch in watches_of(watched.run.read_consensus())] == [None]
    watched.watch.close()


def test_an_agent_that_is_gone_leaves_its_links_untold(watched: Watched) -> None:
    for agent in watched.agents:
        agent.carry(1, *datagrams_of(cm.CommitPosition(1, 64, 0), 0, 0))
    watched.agents[1].wait_until_asked()
    watched.agents[1].is_gone = True
    watched.watch.close()
    (watch,) = watches_of(watched.run.read_consensus())
    assert [(link.source, link.target) for link in watch.links] == [(1, 0)]


def test_an_agent_that_is_silent_for_long_holds_up_nothing_and_leaves_its_links_untold(tmp_path: Path) -> None:
    watched = Watched(tmp_path, silence_s=0)
    first, second = watched.agents
    second.wait_until_asked()
    second.is_gone = True
    first.carry(300, *datagrams_of(cm.Vote(1, 0, 64, 0, 1, True), 0, 1))
    first.now_ns = 400
    wait_until(lambda: any(messages_of(watched.run)), timeout_s=240, describe=lambda: "nothing is written")
    second.is_gone = False
    watched.watch.close()
    (watch,) = watches_of(watched.run.read_consensus())
    assert [(link.source, link.target) for link in watch.links] == [(1, 0)]


def test_what_one_answer_has_no_room_for_is_asked_for_at_once(watched: Watched) -> None:
    first, _ = watched.agents
    first.carry(300, *datagrams_of(cm.Vote(1, 0, 64, 0, 1, True), 0, 1), *[b"no frame"] * (2 * ANSWER_MAX))
    watched.watch.close()
    links = {link.source: link for link in watches_of(watched.run.read_consensus())[0].links}
    assert links[1].is_whole


def test_an_answer_says_until_when_it_is_whole() -> None:
    agent = Agent(PLACES[0])
    agent.now_ns = 1 << 20
    for ns in range(ANSWER_MAX):
        agent.carry(ns, b"datagram")
    first, second, third = (agent.take_seen() for _ in range(3))
    assert [len(each["seen"]) for each in (first, second, third)] == [ANSWER_MAX, ANSWER_MAX, 0]
    assert [each["now"] for each in (first, second)] == [ANSWER_MAX // 2, agent.now_ns]
    assert second["seen"][0][0] == first["now"]


def test_what_is_kept_takes_no_more_memory_than_it_says() -> None:
    seen = SeenDatagrams({})
    tracemalloc.start()
    try:
        for ns in range(1 << 30, (1 << 30) + KEPT_MAX // 100):
            seen.add(ns, "0-to-1-consensus", bytes(40), is_sent=True)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert KEPT_MAX // 4 < taken < KEPT_MAX


def test_what_an_agent_has_no_room_for_is_carried_unseen() -> None:
    agent = Agent(PLACES[0])
    whole = bytes(KEPT_MAX // 5)
    agent.carry(1, whole, whole, whole)
    taken = agent.take_seen()
    assert [len(digits) // 2 for *_, digits in taken["seen"]] == [len(whole)] * 4
    assert taken["carried"] == {PLACES[0].name: [3 * len(whole), 3 * len(whole)]}


def test_a_datagram_has_gone_out_before_anything_can_come_of_it() -> None:
    seen = SeenDatagrams({})
    way = DatagramProxy("0-to-1-consensus", "", "", Random(1), seen.watch_of("0-to-1-consensus")).ways[UPSTREAM]
    sent_ns: list[int] = []
    way.take(b"datagram", lambda _: sent_ns.append(time.monotonic_ns()))
    taken = seen.take(0)["seen"]
    assert isinstance(taken, list)
    assert [is_sent for _, _, is_sent, _ in taken] == [False, True]
    assert taken[1][0] <= sent_ns[0]


def test_only_proxies_of_consensus_are_looked_at() -> None:
    seen = SeenDatagrams({})
    assert seen.watch_of("0-to-1-log") is None
    assert seen.watch_of("0-to-1-consensus") is not None
