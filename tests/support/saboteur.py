"""A target with a false injector: it does nothing, does it to others, or heals nothing. Its observer is the real
target's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Final

from upheaval_chaos.target import (
    CLIENTS,
    DatagramEffect,
    Datagrams,
    Dialler,
    DiskWork,
    Files,
    Hosts,
    Link,
    LinkEffect,
    MemoryWork,
    Node,
    Ping,
    ProcessorWork,
    Target,
    Traffic,
)


class Sabotage(StrEnum):
    NONE = "none"
    IDLE = "idle"
    ELSEWHERE = "elsewhere"
    STAYS = "stays"
    """Broken rightly, and never healed."""
    REVERSED = "reversed"
    """Of links only: the other direction is hit."""
    HALF = "half"
    """Of links only: the first of them alone is hit."""


OF_ALL: Final = (Sabotage.NONE, Sabotage.IDLE, Sabotage.ELSEWHERE, Sabotage.STAYS)
"""What can be done to any kind of fault."""


class LyingHosts:
    """Machines with a false injector. Implements `upheaval_chaos.target.Hosts`."""

    def __init__(self, hosts: Hosts, saboteur: "Saboteur") -> None:
        self._hosts = hosts
        self._saboteur = saboteur
        self.is_exact = hosts.is_exact

    # --- injector ---

    def cut_power(self, member_id: int) -> None:
        self._saboteur.do(self._hosts.cut_power, member_id)

    def move_clock(self, member_id: int, milliseconds: int) -> None:
        move = partial(self._hosts.move_clock, milliseconds=milliseconds)
        # The tests let clocks jump ahead.
        self._saboteur.do(move, member_id, heals=milliseconds < 0)

    def fill_disk(self, member_id: int) -> None:
        self._saboteur.do(self._hosts.fill_disk, member_id)

    def free_disk(self, member_id: int) -> None:
        self._saboteur.do(self._hosts.free_disk, member_id, heals=True)

    def slow_disk(self, member_id: int, latency_ms: int) -> None:
        self._saboteur.do(partial(self._hosts.slow_disk, latency_ms=latency_ms), member_id, heals=not latency_ms)

    def limit_processor(self, member_id: int, percent: int) -> None:
        limit = partial(self._hosts.limit_processor, percent=percent)
        self._saboteur.do(limit, member_id, heals=not percent)

    def limit_memory(self, member_id: int, megabytes: int) -> None:
        limit = partial(self._hosts.limit_memory, megabytes=megabytes)
        self._saboteur.do(limit, member_id, heals=not megabytes)

    def expect_no_end(self, member_id: int) -> None:
        self._saboteur.do(self._hosts.expect_no_end, member_id, heals=True)

    def end_in_change(self, member_id: int, changes: int, *, loses_power: bool) -> None:
        end = partial(self._hosts.end_in_change, changes=changes, loses_power=loses_power)
        self._saboteur.do(end, member_id)

    def end_in_no_change(self, member_id: int) -> None:
        self._saboteur.do(self._hosts.end_in_no_change, member_id, heals=True)

    def change_bytes(self, member_id: int, percent: int) -> None:
        self._saboteur.do(partial(self._hosts.change_bytes, percent=percent), member_id)

    def restore_bytes(self, member_id: int) -> None:
        self._saboteur.do(self._hosts.restore_bytes, member_id, heals=True)

    # --- observer ---

    def has_durable_log(self, member_id: int) -> bool:
        return self._hosts.has_durable_log(member_id)

    def damage_reports(self, member_id: int) -> int:
        return self._hosts.damage_reports(member_id)

    def takes_part(self, member_id: int) -> bool:
        return self._hosts.takes_part(member_id)

    def boot(self, member_id: int) -> str:
        return self._hosts.boot(member_id)

    def clock_lead_ms(self, member_id: int) -> tuple[int, int] | None:
        return self._hosts.clock_lead_ms(member_id)

    def disk_work(self, member_id: int) -> DiskWork:
        return self._hosts.disk_work(member_id)

    def processor_work(self, member_id: int) -> Sequence[ProcessorWork]:
        return self._hosts.processor_work(member_id)

    def memory_work(self, member_id: int) -> MemoryWork:
        return self._hosts.memory_work(member_id)

    def has_room(self, member_id: int) -> bool:
        return self._hosts.has_room(member_id)

    def watch(self, link: Link) -> Traffic:
        return self._hosts.watch(link)


class LyingFiles:
    """Files with a false injector: `hit` are those that it changes. Implements `upheaval_chaos.target.Files`."""

    def __init__(self, files: Files, hit: Files, saboteur: "Saboteur") -> None:
        self._hit = hit
        self._saboteur = saboteur
        self.names = files.names
        self.read = files.read

    def overwrite(self, name: str, offset: int, content: bytes) -> None:
        if not self._saboteur.is_idle:
            self._hit.overwrite(name, offset, content)

    def rewrite(self, name: str, content: bytes) -> None:
        if not self._saboteur.is_idle:
            self._hit.rewrite(name, content)

    def remove(self, names: Sequence[str]) -> None:
        if not self._saboteur.is_idle:
            self._hit.remove(names)

    def remove_all(self) -> None:
        if not self._saboteur.is_idle:
            self._hit.remove_all()


class LyingNode:
    """A node with a false injector: `hit` is the one that it breaks. Implements `upheaval_chaos.target.Node`."""

    def __init__(self, node: Node, hit: Node, saboteur: "Saboteur") -> None:
        self._hit = hit
        self._both = (node, hit)
        self._saboteur = saboteur
        self.incarnation = node.incarnation
        self.turns = node.turns
        self.parts = node.parts

    def kill(self, component: str | None = None) -> None:
        if not self._saboteur.is_idle:
            self._hit.kill(component)

    def stop(self, component: str | None = None, timeout_s: float = 15.0) -> None:
        if not self._saboteur.is_idle:
            self._hit.stop(component, timeout_s)

    def pause(self, component: str | None = None) -> None:
        if not self._saboteur.is_idle:
            self._hit.pause(component)

    def start(self) -> None:
        for each in self._both:
            self._saboteur.heal(each.start)

    def resume(self, component: str | None = None) -> None:
        for each in self._both:
            self._saboteur.heal(partial(each.resume, component))


class LyingDatagrams:
    """Links of datagrams with a false injector. Implements `upheaval_chaos.target.Datagrams`."""

    def __init__(self, datagrams: Datagrams, saboteur: "Saboteur") -> None:
        self._datagrams = datagrams
        self._saboteur = saboteur
        self.volley = datagrams.volley

    def disturb(self, links: Sequence[Link], effect: DatagramEffect) -> None:
        if not self._saboteur.is_idle:
            self._datagrams.disturb(self._saboteur.others(links), effect)

    def restore(self, links: Sequence[Link], effect: DatagramEffect) -> None:
        if not self._saboteur.is_idle:
            self._saboteur.heal(partial(self._datagrams.restore, self._saboteur.others(links), effect))


class Saboteur:
    """Implements `upheaval_chaos.target.Target`."""

    def __init__(self, target: Target, sabotage: Sabotage) -> None:
        self._target = target
        self._sabotage = sabotage
        self.is_idle = sabotage is Sabotage.IDLE
        self._not_healed: list[Callable[[], None]] = []

    def make_good(self) -> None:
        """Heal what the injector has left broken."""
        for heal in self._not_healed:
            heal()
        self._not_healed.clear()

    @property
    def member_ids(self) -> Sequence[int]:
        return self._target.member_ids

    def leader(self) -> int | None:
        return self._target.leader()

    def acknowledged(self) -> int:
        return self._target.acknowledged()

    # --- injector ---

    def files(self, member_id: int) -> Files:
        return LyingFiles(self._target.files(member_id), self._target.files(self._other(member_id)), self)

    def hosts(self, purpose: str, kind: str = "") -> Hosts:
        return LyingHosts(self._target.hosts(purpose, kind), self)

    def do(self, hand: Callable[[int], None], member_id: int, *, heals: bool = False) -> None:
        """What an injector was asked for, as this one does it."""
        if self.is_idle:
            return
        act = partial(hand, self._other(member_id))
        if heals:
            self.heal(act)
        else:
            act()

    def node(self, member_id: int) -> Node:
        return LyingNode(self._target.node(member_id), self._target.node(self._other(member_id)), self)

    def datagrams(self, purpose: str) -> "LyingDatagrams":
        return LyingDatagrams(self._target.datagrams(purpose), self)

    def impose(self, links: Sequence[Link], effect: LinkEffect) -> None:
        if not self.is_idle:
            self._target.impose(self.others(links), effect)

    def lift(self, links: Sequence[Link], effect: LinkEffect) -> None:
        if not self.is_idle:
            self.heal(partial(self._target.lift, self.others(links), effect))

    # --- observer and clock ---

    def exit_status(self, member_id: int, incarnation: str) -> int | None:
        return self._target.exit_status(member_id, incarnation)

    def delivered_by_stream(self, link: Link) -> Mapping[str, int]:
        return self._target.delivered_by_stream(link)

    def ping(self, link: Link, timeout_s: float, extra_length: int = 0) -> Ping:
        return self._target.ping(link, timeout_s, extra_length)

    def now_ns(self) -> int:
        return self._target.now_ns()

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        self._target.wait_until(condition, timeout_s, what)

    def let_pass(self, seconds: float) -> None:
        self._target.let_pass(seconds)

    # --- what it does not do, and whom it hits instead ---

    def heal(self, heal: Callable[[], None]) -> None:
        if self._sabotage is Sabotage.STAYS:
            self._not_healed.append(heal)
        else:
            heal()

    def _other(self, end: int) -> int:
        if self._sabotage is not Sabotage.ELSEWHERE or end == CLIENTS:
            return end
        return (end + 1) % len(self.member_ids)

    def others(self, links: Sequence[Link]) -> list[Link]:
        """What it hits instead of these: of connections that one end dialled, the other end's, too."""
        if self._sabotage is Sabotage.REVERSED:
            return [link.reverse for link in links]
        if self._sabotage is Sabotage.HALF:
            return list(links[:1])
        return [
            replace(link, dialler=Dialler.ANY)
            if link.dialler and self._sabotage is Sabotage.ELSEWHERE
            else replace(link, source=self._other(link.source), target=self._other(link.target))
            for link in links
        ]
