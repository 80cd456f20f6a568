"""Links of a cluster of containers broken by packet filters: a helper in the network name space of each receiver.

The helpers have the right to filter, the members have none. What A sends to B is dropped or answered with a reset where
it arrives at B, before a rule that counts it: the counts are what has come through. Nothing here goes through proxies.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from upheaval.errors import EnvironmentFault, UnknownOutcome, UsageError
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.containers import network_name
from upheaval.runtimes.docker.engine import engine_errors, require_image
from upheaval.runtimes.docker.inside import run_inside, run_silent
from upheaval.system import port_in_container
from upheaval_chaos import connections
from upheaval_chaos.target import CHANNELS, Answer, Link, LinkEffect, LinkFaultKind, Means, Ping
from upheaval_node import __version__

IMAGE: Final = f"upheaval/netfault:{__version__}"
_CUT: Final = "UPHEAVAL-CUT"
_COUNT: Final = "UPHEAVAL-COUNT"
# A reset that a filter sends to one end passes the filter of the other, and is no traffic of theirs.
_NO_RESET: Final = "! --tcp-flags RST RST"
_VERDICTS: Final = {LinkFaultKind.BLACKHOLE: "DROP", LinkFaultKind.RESET: "REJECT --reject-with tcp-reset"}
_INSIDE: Final = Path(connections.__file__).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _Rule:
    """Packets of one channel from one member, of connections that it dialled (`--dport`) or accepted (`--sport`)."""

    source: int
    target: int
    channel: str
    side: str


class PacketLinks:
    """Implements `live.Links`. Its containers go with the run."""

    def __init__(self, cluster: DockerCluster) -> None:
        require_image(cluster.client, IMAGE)
        self._cluster = cluster
        self._members = range(cluster.config.members)
        self._helpers: dict[int, tuple[str, Any]] = {}
        self._held: Counter[tuple[_Rule, str]] = Counter()

    def close(self) -> None:
        """The helpers go when the run goes."""

    @property
    def datagrams(self) -> None:
        """There are none."""

    # --- injector ---

    def impose(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """A rule that two faults want is there until both are gone.

        Raises `UsageError` for effects that are no filters.
        """
        verdict = _verdict(links, effect)
        rules = _rules(links)
        new = [rule for rule in rules if not self._held[rule, verdict]]
        # First of all, so that it can be lifted when only some of it could be imposed.
        self._held.update((rule, verdict) for rule in rules)
        self._change("-A", verdict, new)

    def lift(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Take away the rules that no other fault wants."""
        verdict = _verdict(links, effect)
        rules = _rules(links)
        self._held.subtract((rule, verdict) for rule in rules)
        self._change("-D", verdict, [rule for rule in rules if not self._held[rule, verdict]], " || :")

    def _change(self, how: str, verdict: str, rules: Sequence[_Rule], unless: str = "") -> None:
        """Everything in one network at once. What could not be imposed is not there to be deleted."""
        for target in dict.fromkeys(rule.target for rule in rules):
            matches = [self._match(rule) for rule in rules if rule.target == target]
            self._filter(target, [f"{how} {_CUT} {match} -j {verdict}{unless}" for match in matches])

    # --- observer ---

    def delivered_by_stream(self, link: Link) -> Mapping[str, int]:
        """Bytes of packets, with their headers."""
        _require_members([link])
        listed = self._ask(link.target, ["iptables", "-w", "-n", "-v", "-x", "-L", _COUNT])
        counts = dict(_parse_counts(listed))
        address = self._address(link.source)
        found = {}
        for rule in _rules([link]):
            word = "dpt" if rule.side == "--dport" else "spt"
            found[f"{link} {rule.channel} {word}"] = counts.get((address, f"{word}:{self._port(rule.channel)}"), 0)
        return found

    def ping(self, link: Link, timeout_s: float, extra_length: int = 0) -> Ping:
        """Dials inside the source's network; a connection that is refused counts as reset."""
        _require_members([link])
        channel, text = self._cluster.system.ping(link.channels, extra_length)
        said = [text.padding.hex(), text.repeats, text.hello.hex(), text.farewell.hex()]
        arguments = [self._address(link.target), self._port(channel), *said, timeout_s]
        output = self._ask(link.source, ["python3", "-c", _INSIDE, "ping", *map(str, arguments)])
        answer, took_ns = json.loads(output)
        # A new connection that is reset has been refused, for him who dials.
        return Ping(Answer.RESET if answer == Answer.REFUSED else Answer(answer), took_ns)

    # --- helpers ---

    def _match(self, rule: _Rule) -> str:
        """What is common to the rules about it."""
        return f"-s {self._address(rule.source)} -p tcp {_NO_RESET} {rule.side} {self._port(rule.channel)}"

    def _port(self, channel: str) -> int:
        return port_in_container(self._cluster.system, channel)

    def _address(self, member_id: int) -> str:
        settings = self._member(member_id).attrs["NetworkSettings"]["Networks"]
        return str(settings[self._cluster.engine_run.member_network(member_id)]["IPAddress"])

    def _member(self, member_id: int) -> Any:
        container = self._cluster.member(member_id).node.container()
        if container is None or not container.attrs["State"]["Running"]:
            raise UnknownOutcome(f"member {member_id} does not run: its network is gone")
        return container

    def _helper(self, member_id: int) -> Any:
        """The helper in the member's network, a new one when that is a new network."""
        member = self._member(member_id)
        incarnation = f"{member.id} {member.attrs['State']['StartedAt']}"
        known, helper = self._helpers.get(member_id, ("", None))
        if known != incarnation:
            if helper is not None:
                with engine_errors("removing a helper"):
                    helper.remove(force=True)
            helper = self._start_helper(member_id, member.id)
            self._helpers[member_id] = (incarnation, helper)
            counting = [
                f"-A {_COUNT} {self._match(_Rule(source, member_id, channel, side))}"
                for source in self._members
                if source != member_id
                for channel in CHANNELS
                for side in ("--dport", "--sport")
            ]
            chains = [f"-N {_CUT}", f"-N {_COUNT}", f"-A INPUT -j {_CUT}", f"-A INPUT -j {_COUNT}"]
            self._filter(member_id, chains + counting)
        return helper

    def _start_helper(self, member_id: int, container_id: str) -> Any:
        cluster = self._cluster
        with engine_errors(f"starting the helper of member {member_id}"):
            helper = cluster.client.containers.run(
                IMAGE,
                name=f"{network_name(cluster.config.run_id)}-netfault-{member_id}",
                network_mode=f"container:{container_id}",
                cap_drop=["ALL"],
                cap_add=["NET_ADMIN", "NET_RAW"],
                security_opt=["no-new-privileges"],
                read_only=True,
                tmpfs={"/run": "size=1m"},
                init=True,
                labels=dict(cluster.engine_run.labels),
                detach=True,
            )
            helper.reload()
            return helper

    def _filter(self, member_id: int, rules: Sequence[str]) -> None:
        command = ["sh", "-ec", "; ".join(f"iptables -w {rule}" for rule in rules)]
        _required(member_id, *run_silent(self._helper(member_id), command, _doing(member_id)))

    def _ask(self, member_id: int, command: Sequence[str]) -> str:
        """What a command says in the member's network."""
        return _required(member_id, *run_inside(self._helper(member_id), command, _doing(member_id)))


def _doing(member_id: int) -> str:
    return f"filtering packets of member {member_id}"


def _required(member_id: int, status: int, text: str) -> str:
    """What was said. Raises `EnvironmentFault` when the command failed."""
    if status:
        last_line = text.rpartition("\n")[2]
        raise EnvironmentFault(f"packets of member {member_id} cannot be filtered: {last_line}")
    return text


def _verdict(links: Sequence[Link], effect: LinkEffect) -> str:
    _require_members(links)
    if effect.means is not Means.PACKETS or effect.kind not in _VERDICTS:
        raise UsageError(f"filters of packets do no {effect.kind}: the links of this cluster have no proxies")
    return _VERDICTS[effect.kind]


def _require_members(links: Sequence[Link]) -> None:
    if any(link.is_of_clients for link in links):
        raise UsageError("filters of packets lie between members: leave out by=packets for clients")


def _rules(links: Sequence[Link]) -> list[_Rule]:
    sides = ("--dport", "--sport")
    return [
        _Rule(link.source, link.target, channel, side) for link in links for channel in link.channels for side in sides
    ]


def _parse_counts(listed: str) -> Iterator[tuple[tuple[str, str], int]]:
    """From the table that iptables prints: source and `dpt:PORT` or `spt:PORT` of each rule, and its bytes."""
    for line in listed.splitlines():
        words = line.split()
        port = next((word for word in words if word.startswith(("dpt:", "spt:"))), None)
        if port is not None:
            source = next(word for word in words if word.count(".") == 3)
            yield (source, port), int(words[1])
