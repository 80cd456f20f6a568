"""The common part of all proxies: addresses, toxics, and counts of received and sent bytes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from upheaval_chaos.toxics import STREAMS, Toxic


@dataclass(slots=True)
class Traffic:
    """The traffic of one stream of a proxy over its life: bytes read from its sender and written to its receiver, and
    datagrams if it carries these.
    """

    received: int = 0
    sent: int = 0
    datagrams_received: int = 0
    datagrams_sent: int = 0


class AnyProxy(ABC):
    """One proxy. `listen` is its actual address, with the port that was chosen for port 0."""

    types: ClassVar[Mapping[str, Sequence[str]]]
    """The supported types of toxics, with the attributes of each."""

    def __init__(self, name: str, listen: str, upstream: str, random: Random) -> None:
        self.name = name
        self.listen = listen
        self.upstream = upstream
        self.toxics: dict[str, Toxic] = {}
        self.traffic = {stream: Traffic() for stream in STREAMS}
        self.random = random

    @property
    @abstractmethod
    def enabled(self) -> bool:
        """Whether it listens."""

    @abstractmethod
    async def enable(self) -> None:
        """Listen. Raises `OSError` when the address cannot be bound."""

    @abstractmethod
    async def disable(self) -> None:
        """Listen no more, and drop what is under way."""

    @abstractmethod
    def put_toxic(self, toxic: Toxic) -> None:
        """Add or replace a toxic; it also affects existing connections. Raises `ToxicError` for an unsupported
        toxic.
        """

    @abstractmethod
    async def remove_toxic(self, name: str) -> None:
        """Take it away."""

    def toxics_of(self, stream: str, kind: str) -> list[Toxic]:
        """The toxics of one type on one stream, in the order in which they were first added."""
        return [toxic for toxic in self.toxics.values() if toxic.stream == stream and toxic.type == kind]

    def to_fields(self) -> dict[str, object]:
        """The proxy in the form of Toxiproxy's API."""
        return {
            "name": self.name,
            "listen": self.listen,
            "upstream": self.upstream,
            "enabled": self.enabled,
            "toxics": [toxic.to_fields() for toxic in self.toxics.values()],
        }
