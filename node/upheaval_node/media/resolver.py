"""Where an endpoint is: the one place where a name becomes an address, asked anew at every dial."""

from collections.abc import Mapping
from typing import Protocol


class Resolver(Protocol):
    def resolve(self, endpoint: str, stream_id: int) -> str:
        """The `host:port` to dial for `endpoint`; the stream id allows another path for each kind of stream.

        Raises `NetworkError` when the name is unknown.
        """
        ...


class StaticResolver:
    """Endpoints as they are, except those that a mapping names (which may change between dials)."""

    def __init__(self, addresses: Mapping[str, str] | None = None) -> None:
        self._addresses = addresses if addresses is not None else {}

    def resolve(self, endpoint: str, stream_id: int) -> str:  # noqa: ARG002 - the same for every stream
        return self._addresses.get(endpoint, endpoint)
