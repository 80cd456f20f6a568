"""The addresses of endpoints: the only place that turns a name into an address, anew at every dial."""

from collections.abc import Mapping
from typing import Protocol

from upheaval_node.tls_files import named_address


class Resolver(Protocol):
    """Turns the endpoint of a channel into the address that is dialled."""

    def resolve(self, endpoint: str, stream_id: int) -> str:
        """The `host:port` to dial for `endpoint`; the stream id allows another path for each kind of stream.

        With `name@` before it only the process of that name may answer there. Raises `NetworkError` when the name is
        unknown.
        """


class NamingResolver:
    """Adds the expected process to each endpoint (`name@host:port`), as far as it is known; else `others`."""

    def __init__(self, resolver: Resolver, names: Mapping[str, str], others: str) -> None:
        self._resolver = resolver
        self._names = names
        self._others = others

    def resolve(self, endpoint: str, stream_id: int) -> str:
        """The address with the expected name before it, which the other end's certificate has to show."""
        name = self._names.get(endpoint, self._others)
        return named_address(name, self._resolver.resolve(endpoint, stream_id))


class StaticResolver:
    """Endpoints unchanged, except those in a mapping (which may change between dials)."""

    def __init__(self, addresses: Mapping[str, str] | None = None) -> None:
        self._addresses = addresses if addresses is not None else {}

    def resolve(self, endpoint: str, stream_id: int) -> str:  # noqa: ARG002 - the same for every stream
        """The mapped address, else the endpoint itself."""
        return self._addresses.get(endpoint, endpoint)
