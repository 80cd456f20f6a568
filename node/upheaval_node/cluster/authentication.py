"""The hooks that decide who may open a session and who may ask for what, and their defaults.

Source of the calls and states: Aeron Cluster, authenticator and authorisation service. Knows nothing of sessions but
what the proxy shows.
"""

from typing import Final, Protocol, runtime_checkable

from upheaval_node.errors import UsageError
from upheaval_node.named_classes import make_named
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.types import Now


class SessionProxy(Protocol):
    """What an authenticator can do with a session that is about to open."""

    @property
    def session_id(self) -> int:
        """The id that the session will have."""

    def authenticate(self, principal: bytes = b"") -> None:
        """Accept the client as `principal`, at most 4096 bytes (`UsageError`)."""

    def challenge(self, encoded_challenge: bytes) -> bool:
        """Ask the client for more; False when the client could not be reached now."""

    def reject(self) -> None:
        """Refuse the client (EventCode AUTHENTICATION_REJECTED)."""


@runtime_checkable
class Authenticator(Protocol):
    """Called in this order: connect request, then connected, then for a challenged client response and challenged."""

    def on_connect_request(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:
        """A client asks for a session, with these credentials; `session_id` is what later calls name."""

    def on_connected_session(self, now: Now, proxy: SessionProxy) -> None:
        """The client can be reached: accept, challenge or reject it, now or in a later call."""

    def on_challenge_response(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:
        """What a challenged client answered."""

    def on_challenged_session(self, now: Now, proxy: SessionProxy) -> None:
        """Called while a session is challenged: accept or reject it as soon as that is known."""


class AcceptEveryone:
    """Opens every session, with an empty principal."""

    def on_connect_request(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:
        """Credentials mean nothing here."""

    def on_connected_session(self, now: Now, proxy: SessionProxy) -> None:  # noqa: ARG002 - everyone
        """Accepts at once."""
        proxy.authenticate()

    def on_challenge_response(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:
        """Does nothing: no client is challenged."""

    def on_challenged_session(self, now: Now, proxy: SessionProxy) -> None:  # noqa: ARG002 - everyone
        """Accepts at once."""
        proxy.authenticate()


@runtime_checkable
class AuthorisationService(Protocol):
    """Whether a client may send a request other than messages."""

    def is_authorised(self, schema_id: int, template_id: int, request_type: int | None, principal: bytes) -> bool:
        """By schema and template id of the request; `request_type` is that of an AdminRequest, else None."""


class AllowTemplates:
    """Allows some messages of the cluster's schema to everyone, and nothing else."""

    def __init__(self, templates: frozenset[int]) -> None:
        self._templates = templates

    def is_authorised(self, schema_id: int, template_id: int, request_type: int | None, principal: bytes) -> bool:  # noqa: ARG002 - everyone
        """By the template alone."""
        return schema_id == cm.SCHEMA.table.schema_id and template_id in self._templates


class Always:
    """The same answer to everyone and everything."""

    def __init__(self, *, answer: bool) -> None:
        self._answer = answer

    def is_authorised(self, schema_id: int, template_id: int, request_type: int | None, principal: bytes) -> bool:  # noqa: ARG002 - always
        """The same answer whatever is asked."""
        return self._answer


BACKUP_TEMPLATES: Final = frozenset(
    {cm.BackupQuery.TEMPLATE_ID, cm.HeartbeatRequest.TEMPLATE_ID, cm.StandbySnapshot.TEMPLATE_ID}
)


def authorisation_named(name: str) -> AuthorisationService:
    """`ALLOW_ALL`, `DENY_ALL`, `package.module:Class`, or "" for the default: what a backup asks, and no AdminRequest.

    Raises `UsageError` for a name of no authorisation service.
    """
    match name:
        case "":
            return AllowTemplates(BACKUP_TEMPLATES)
        case "ALLOW_ALL":
            return Always(answer=True)
        case "DENY_ALL":
            return Always(answer=False)
        case _:
            known = ("ALLOW_ALL", "DENY_ALL")
            service = make_named("authorisation", name, "roles:FILE, ALLOW_ALL, DENY_ALL or empty", known)
            if not isinstance(service, AuthorisationService):
                raise UsageError(f"authorisation {name!r} has no method is_authorised")
            return service


def authenticator_named(name: str) -> Authenticator:
    """One of class `package.module:Class`, or for "" one that accepts everyone.

    Raises `UsageError` for a name of no authenticator.
    """
    if not name:
        return AcceptEveryone()
    authenticator = make_named("authenticator", name)
    if not isinstance(authenticator, Authenticator):
        raise UsageError(f"authenticator {name!r} lacks a method of cluster.authentication.Authenticator")
    return authenticator
