"""Proxied links between the members of a process cluster: one proxy for each directed pair and channel.

Member A dials B through the proxies of A and B only, because A's configuration names them for B's endpoints. The bytes
of A reach B upstream through these, and downstream through the proxies by which B dials A. Hands set toxics over
Toxiproxy's API; eyes read the bytes that the proxies wrote, and make connections of their own.
"""

import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from upheaval.errors import UsageError
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.ports import HOST, member_ports
from upheaval_chaos.proxy_server import ProxyServer
from upheaval_chaos.target import Answer, Link, Ping
from upheaval_chaos.toxics import DOWNSTREAM, UPSTREAM
from upheaval_chaos.toxiproxy import ToxiproxyClient

CHANNELS: Final = ("consensus", "log", "catchup", "archive")
"""In the order of a member's ports, behind that for ingress, which members do not dial."""


class ProxiedLinks:
    """The links of one cluster. To be made before its members start; `close` ends the proxies."""

    def __init__(self, cluster: AnyCluster, seed: int) -> None:
        self._cluster = cluster
        self._stack = ExitStack()
        server = self._stack.enter_context(ProxyServer(seed))
        self.api_address = server.address
        self._client = ToxiproxyClient(server.address)
        self._toxics: dict[Link, list[tuple[str, str, str]]] = {}
        self._listen: dict[str, str] = {}
        for member_id in range(cluster.config.members):
            cluster.dial_through(member_id, self._make_proxies(member_id))

    def close(self) -> None:
        self._stack.close()

    # --- hands ---

    def cut(self, links: Sequence[Link]) -> None:
        for link in links:
            for proxy, stream in _streams(link):
                self._add(link, proxy, "timeout", stream, {"timeout": 0})

    def reset(self, links: Sequence[Link]) -> None:
        for link in links:
            for channel in CHANNELS:
                self._add(link, _name(link, channel), "reset_peer", UPSTREAM, {"timeout": 0})

    def slow(self, links: Sequence[Link], latency_ns: int, bytes_per_second: int) -> None:
        if bytes_per_second % 1000:
            raise UsageError(f"bytes-per-second {bytes_per_second}: proxies limit in steps of 1000")
        for link in links:
            for proxy, stream in _streams(link):
                if latency_ns:
                    self._add(link, proxy, "latency", stream, {"latency": latency_ns // 1_000_000, "jitter": 0})
                if bytes_per_second:
                    self._add(link, proxy, "bandwidth", stream, {"rate": bytes_per_second // 1000})

    def heal(self, links: Sequence[Link]) -> None:
        for link in links:
            for proxy, kind, stream in self._toxics.pop(link, []):
                self._client.remove_toxic(proxy, kind, stream)

    # --- eyes ---

    def delivered(self, link: Link) -> int:
        return sum(self.delivered_by_stream(link).values())

    def delivered_by_stream(self, link: Link) -> Mapping[str, int]:
        sent = self._client.sent_bytes()
        return {f"{proxy} {stream}": sent.get((proxy, stream), 0) for proxy, stream in _streams(link)}

    def ping(self, link: Link, timeout_s: float) -> Ping:
        """Half a frame and the end of the stream; the answer is that the member closes the connection."""
        begin_ns = time.monotonic_ns()
        host, _, port = self._listen[_name(link, CHANNELS[0])].rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout_s) as connection:
                connection.sendall(b"ping")
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1)
        except TimeoutError:
            return Ping(Answer.SILENT, time.monotonic_ns() - begin_ns)
        except OSError:
            return Ping(Answer.RESET, time.monotonic_ns() - begin_ns)
        return Ping(Answer.ANSWERED, time.monotonic_ns() - begin_ns)

    # --- set-up ---

    def _make_proxies(self, member_id: int) -> dict[str, str]:
        """Where the member dials for the endpoints of the others."""
        names = {}
        config = self._cluster.config
        for other in range(config.members):
            if other == member_id:
                continue
            for channel, port in zip(CHANNELS, member_ports(config.base_port, other)[1:], strict=True):
                endpoint, name = f"{HOST}:{port}", _name(Link(member_id, other), channel)
                names[endpoint] = self._listen[name] = self._client.create(name, endpoint)
        return names

    def _add(self, link: Link, proxy: str, kind: str, stream: str, attributes: Mapping[str, int]) -> None:
        self._client.add_toxic(proxy, kind, stream, attributes)
        self._toxics.setdefault(link, []).append((proxy, kind, stream))


def _name(link: Link, channel: str) -> str:
    return f"{link.source}-to-{link.target}-{channel}"


def _streams(link: Link) -> Iterator[tuple[str, str]]:
    """Every stream of a proxy that carries the bytes of `link`."""
    for channel in CHANNELS:
        yield _name(link, channel), UPSTREAM
        yield _name(link.reverse, channel), DOWNSTREAM
