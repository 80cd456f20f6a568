"""The hook that decides who may open a session, and the default that lets everyone in.

Source of the calls and states: Aeron Cluster, authenticator. Knows nothing of sessions but what the proxy shows.
"""

from typing import Final, Protocol

from upheaval_node.types import Now

MAX_PRINCIPAL_LENGTH: Final = 4096


class SessionProxy(Protocol):
    """What an authenticator can do with a session that is about to open."""

    @property
    def session_id(self) -> int: ...

    def authenticate(self, principal: bytes = b"") -> None:
        """Accept the client as `principal`, at most 4096 bytes (`UsageError`)."""
        ...

    def challenge(self, encoded_challenge: bytes) -> bool:
        """Ask the client for more; False when the client could not be reached now."""
        ...

    def reject(self) -> None: ...


class Authenticator(Protocol):
    """Called in this order: connect request, then connected, then for a challenged client response and challenged."""

    def on_connect_request(self, now: Now, session_id: int, encoded_credentials: bytes) -> None: ...
    def on_connected_session(self, now: Now, proxy: SessionProxy) -> None: ...
    def on_challenge_response(self, now: Now, session_id: int, encoded_credentials: bytes) -> None: ...
    def on_challenged_session(self, now: Now, proxy: SessionProxy) -> None: ...


class AcceptEveryone:
    """Opens every session, with an empty principal."""

    def on_connect_request(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:
        pass

    def on_connected_session(self, now: Now, proxy: SessionProxy) -> None:  # noqa: ARG002 - everyone
        proxy.authenticate()

    def on_challenge_response(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:
        pass

    def on_challenged_session(self, now: Now, proxy: SessionProxy) -> None:  # noqa: ARG002 - everyone
        proxy.authenticate()
