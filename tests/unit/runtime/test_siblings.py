"""The processes of a split member live and die together."""

import time
from pathlib import Path

import pytest

from unit.runtime.parties import Sender, child, run_until, run_until_printed
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.runtime.siblings import SOCKET, SiblingHub, SiblingLink

COMPONENTS = ("consensus", "service-0")


@pytest.fixture(autouse=True)
def _member_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "aeron").mkdir()
    monkeypatch.chdir(tmp_path)


class Member:
    """A hub with its links in one process."""

    def __init__(self, network: SelectorNetwork) -> None:
        self.network = network
        self.loop = network.loop
        self.events: list[tuple[str, str]] = []
        self.hub = SiblingHub(
            network,
            self.loop,
            COMPONENTS,
            on_lost=lambda component: self.events.append(("lost", component)),
            on_bye=lambda component: self.events.append(("bye", component)),
        )

    def link(self, component: str) -> SiblingLink:
        return SiblingLink(
            self.network,
            self.loop,
            component,
            on_lost=lambda: self.events.append(("hub lost", component)),
            on_stop=lambda: self.events.append(("asked to stop", component)),
        )

    def complete(self) -> list[SiblingLink]:
        links = [self.link(component) for component in COMPONENTS]
        run_until(self.loop, lambda: self.hub.is_complete)
        return links


def test_a_component_that_dies_is_told_from_one_that_ends(network: SelectorNetwork) -> None:
    member = Member(network)
    first, second = member.complete()
    first.close(orderly=False)
    second.close(orderly=True)
    run_until(member.loop, lambda: len(member.events) == 2)
    assert sorted(member.events) == [("bye", "service-0"), ("lost", "consensus")]
    assert member.hub.is_alone


def test_everybody_is_asked_to_stop(network: SelectorNetwork) -> None:
    member = Member(network)
    member.complete()
    member.hub.stop_others()
    run_until(member.loop, lambda: len(member.events) == 2)
    assert sorted(member.events) == [("asked to stop", "consensus"), ("asked to stop", "service-0")]


def test_a_component_may_come_before_the_archive_process(network: SelectorNetwork) -> None:
    events: list[str] = []
    SiblingLink(
        network,
        network.loop,
        "consensus",
        on_lost=lambda: events.append("lost"),
        on_stop=lambda: events.append("stop"),
    )
    network.loop.run_once(0.05)
    member = Member(network)
    member.link("service-0")
    run_until(network.loop, lambda: member.hub.is_complete)
    assert events == []


def test_the_kill_of_the_archive_process_is_noticed_at_once(network: SelectorNetwork) -> None:
    code = """
        from upheaval_node.runtime.loop import Loop
        from upheaval_node.runtime.network import SelectorNetwork
        from upheaval_node.runtime.siblings import SiblingHub
        loop = Loop()
        hub = SiblingHub(SelectorNetwork(loop), loop, ("consensus",), on_lost=print, on_bye=print)
        while True:
            loop.run_once(None)
            if hub.is_complete:
                print("complete", flush=True)
    """
    lost: list[float] = []
    with child(code) as process:
        SiblingLink(
            network,
            network.loop,
            "consensus",
            on_lost=lambda: lost.append(time.monotonic()),
            on_stop=lambda: lost.append(0),
        )
        run_until_printed(network.loop, process)
        process.kill()
        killed_at = time.monotonic()
        run_until(network.loop, lambda: lost)
    assert lost[0] - killed_at < 15, "the end of the connection says so, no time-out"


def test_an_endless_line_is_thrown_away(network: SelectorNetwork) -> None:
    member = Member(network)
    network.dial(f"unix:{SOCKET}", Sender(b"x" * 1_000_000 + b"\nconsensus\n"))
    member.link("service-0")
    run_until(member.loop, lambda: not member.hub.is_alone)
    assert member.events == []
