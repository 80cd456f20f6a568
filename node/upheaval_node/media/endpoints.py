"""The connections of a driver: listeners, dialled links, and the response tokens announced on them.

This module knows nothing of publications and images; it passes SETUP frames on, with the source that they came through.
"""

from dataclasses import dataclass, field
from typing import Final

from upheaval_node.errors import NetworkError, PeerError
from upheaval_node.media.link import FrameLink, LinkOwner, pack_token
from upheaval_node.peer_faults import host_of
from upheaval_node.ports import Connection, Listener, Network
from upheaval_node.protocol.frames import Setup
from upheaval_node.settings import MediaSettings
from upheaval_node.types import NOT_YET, Ns

# The source of a stream: a listener, or a response token of ours that it answers.
Source = tuple[str, str | int]

MAX_TOKENS_PER_LINK: Final = 256
MAX_SETUPS_PER_LINK: Final = 64


@dataclass(slots=True)
class LinkRecord:
    """The record of one link: the listener that accepted it, or None if we dialled it."""

    listener: str | None
    opened_ns: Ns
    setups: dict[tuple[int, int], tuple[Setup, int | None]] = field(default_factory=dict)
    tokens: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class ListenerRecord:
    """A listener, the subscriptions that use it, and why its address could not be bound yet."""

    address: str
    users: list[int]
    listener: Listener | None = None
    error: str | None = None


class Endpoints:
    """Opens and forgets connections. `links` keeps the order in which they were opened."""

    def __init__(self, network: Network, owner: LinkOwner, settings: MediaSettings) -> None:
        self.links: dict[FrameLink, LinkRecord] = {}
        self.listeners: dict[str, ListenerRecord] = {}
        # Tokens of our own response subscriptions, with their stream ids, and how many subscriptions use each.
        self._own_tokens: dict[int, tuple[int, int]] = {}
        self._network = network
        self._owner = owner
        self._settings = settings
        self.now_ns = NOT_YET.ns

    # --- listeners ---

    def listen(self, key: str, address: str, user: int) -> ListenerRecord:
        """Use the listener `key`, bound to `address`, for another subscription."""
        record = self.listeners.get(key)
        if record is None:
            record = self.listeners[key] = ListenerRecord(address, [])
            self._bind(key, record)
        record.users.append(user)
        return record

    def _bind(self, key: str, record: ListenerRecord) -> None:
        try:
            record.listener = self._network.listen(record.address, lambda connection: self._accept(key, connection))
            record.error = None
        except NetworkError as error:
            record.error = str(error)

    def rebind(self) -> None:
        """Try again to bind the addresses that were in use."""
        for key, record in self.listeners.items():
            if record.listener is None:
                self._bind(key, record)

    def release(self, key: str, user: int) -> None:
        """Remove one user. Without users, the listener and its links are closed."""
        record = self.listeners.get(key)
        if record is None or user not in record.users:
            return
        record.users.remove(user)
        if record.users:
            return
        del self.listeners[key]
        if record.listener is not None:
            record.listener.close()
        for link in [link for link, link_record in self.links.items() if link_record.listener == key]:
            link.flush()
            link.close("no subscription any more")

    def _accept(self, key: str, connection: Connection) -> FrameLink:
        link = FrameLink(self._owner)
        refusal = self._too_many(key, connection.peer)
        if refusal or key not in self.listeners:
            link.is_closed = True
            link.peer = connection.peer
            connection.close()
            if refusal:
                self._owner.on_peer_error(link, PeerError(refusal))
            return link
        self.links[link] = LinkRecord(key, self.now_ns)
        link.on_connected(connection)
        return link

    def _too_many(self, key: str, peer: str) -> str:
        """The limit that another connection would exceed; empty if none."""
        accepted = [link for link, record in self.links.items() if record.listener == key]
        if len(accepted) >= self._settings.max_connections:
            return f"more than {self._settings.max_connections} connections in all"
        of_peer = sum(host_of(link.peer) == host_of(peer) for link in accepted)
        if of_peer >= self._settings.max_connections_of_peer:
            return f"more than {self._settings.max_connections_of_peer} connections of one peer"
        return ""

    # --- dialled links ---

    def dial(self, address: str) -> FrameLink:
        """Raises `NetworkError`."""
        link = FrameLink(self._owner)
        self.links[link] = LinkRecord(None, self.now_ns)
        try:
            link.connection = self._network.dial(address, link)
        except NetworkError:
            del self.links[link]
            raise
        return link

    def on_connected(self, link: FrameLink) -> None:
        """Announce the response tokens to a host that we dialled."""
        record = self.links.get(link)
        if record is not None and record.listener is None:
            for token, (stream_id, _) in self._own_tokens.items():
                link.send_required(pack_token(token, stream_id))

    def forget(self, link: FrameLink) -> None:
        """Forget a closed connection."""
        self.links.pop(link, None)

    # --- response tokens ---

    def announce(self, token: int, stream_id: int) -> None:
        """Announce this token to every host that we dialled."""
        _, users = self._own_tokens.get(token, (stream_id, 0))
        self._own_tokens[token] = (stream_id, users + 1)
        if users == 0:
            self._send_to_dialled(pack_token(token, stream_id))

    def withdraw(self, token: int) -> None:
        """Remove one user of a token. After the last, the token is withdrawn at the hosts that we dialled."""
        stream_id, users = self._own_tokens.pop(token, (0, 0))
        if users > 1:
            self._own_tokens[token] = (stream_id, users - 1)
        elif users == 1:
            self._send_to_dialled(pack_token(token, stream_id, withdrawn=True))

    def _send_to_dialled(self, frame: bytes) -> None:
        for link, record in self.links.items():
            if record.listener is None and link.is_connected:
                link.send_required(frame)

    def on_token(self, link: FrameLink, token: int, stream_id: int, *, withdrawn: bool) -> bool:
        """Take a token announced by a host that dialled us. Returns whether it may be used now.

        False for a withdrawal, and for a link that we dialled. Raises `PeerError` for too many tokens.
        """
        record = self.links.get(link)
        if record is None or record.listener is None:
            return False
        if withdrawn:
            record.tokens.pop(token, None)
            return False
        if len(record.tokens) >= MAX_TOKENS_PER_LINK and token not in record.tokens:
            raise PeerError(f"more than {MAX_TOKENS_PER_LINK} response tokens")
        record.tokens[token] = stream_id
        return True

    def link_of_token(self, token: int, stream_id: int) -> FrameLink | None:
        """The newest live connection on which the token was announced."""
        newest = None
        for link, record in self.links.items():
            if record.tokens.get(token) == stream_id and link.is_connected:
                newest = link
        return newest

    # --- setups ---

    def on_setup(self, link: FrameLink, setup: Setup, token: int | None) -> None:
        """Keep a SETUP for the next duty cycle. Raises `PeerError` for a flood."""
        record = self.links.get(link)
        if record is None:
            return
        if len(record.setups) >= MAX_SETUPS_PER_LINK:
            raise PeerError(f"more than {MAX_SETUPS_PER_LINK} streams set up at once")
        record.setups[setup.stream_id, setup.session_id] = (setup, token)

    def take_setups(self) -> list[tuple[FrameLink, Source | None, Setup]]:
        """What was set up since the last call, with the way it came; None for an unasked answer."""
        taken: list[tuple[FrameLink, Source | None, Setup]] = []
        for link, record in self.links.items():
            if record.setups:
                for setup, token in record.setups.values():
                    source: Source | None = None
                    if record.listener is not None:
                        source = ("listen", record.listener)
                    elif token is not None:
                        source = ("token", token)
                    taken.append((link, source, setup))
                record.setups.clear()
        return taken

    def close_idle(self, now_ns: Ns, timeout_ns: int) -> None:
        """Close accepted connections on which nothing was ever set up or announced."""
        for link, record in list(self.links.items()):
            if link.saw_input or link.transports or link.senders:
                link.saw_input = False
                record.opened_ns = now_ns
            elif record.listener is not None and now_ns - record.opened_ns >= timeout_ns:
                link.close("idle connection")

    def close(self) -> None:
        """Close every connection and every listener."""
        for link in list(self.links):
            link.flush()
            link.close("driver closed")
        for record in self.listeners.values():
            if record.listener is not None:
                record.listener.close()
        self.listeners.clear()
