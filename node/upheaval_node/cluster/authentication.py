"""The hooks that decide who may open a session and which requests a client may send, and their defaults.

Source of the calls and states: Aeron Cluster, authenticator and authorisation service. Of a session, these hooks know
only what the proxy exposes.
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
        """Send the client a challenge. Returns False when the client could not be reached now."""

    def reject(self) -> None:
        """Refuse the client (EventCode AUTHENTICATION_REJECTED)."""


@runtime_checkable
class Authenticator(Protocol):
    """Decides about each session. The calls come in order: connect request, then connected session.

    For a challenged client, challenge response and challenged session follow.
    """

    def on_connect_request(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:
        """A client asks for a session with these credentials. Later calls name `session_id`."""

    def on_connected_session(self, now: Now, proxy: SessionProxy) -> None:
        """The client can be reached: accept, challenge or reject it, now or in a later call."""

    def on_challenge_response(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:
        """A challenged client has answered."""

    def on_challenged_session(self, now: Now, proxy: SessionProxy) -> None:
        """Called repeatedly while a session is challenged: accept or reject it once that is decided."""


class AcceptEveryone:
    """Opens every session, with an empty principal."""

    def on_connect_request(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:
        """Ignores the credentials."""

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
    """Decides whether a client may send a request other than a session message."""

    def is_authorised(self, schema_id: int, template_id: int, request_type: int | None, principal: bytes) -> bool:
        """Whether `principal` may send the request. `request_type` is the type of an AdminRequest, else None."""


class AllowTemplates:
    """Allows everyone to send some message types of the cluster's schema, and nothing else."""

    def __init__(self, templates: frozenset[int]) -> None:
        self._templates = templates

    def is_authorised(self, schema_id: int, template_id: int, request_type: int | None, principal: bytes) -> bool:  # noqa: ARG002 - everyone
        """Decides by schema and template alone."""
        return schema_id == cm.SCHEMA.table.schema_id and template_id in self._templates


class Always:
    """Gives the same answer to every request."""

    def __init__(self, *, answer: bool) -> None:
        self._answer = answer

    def is_authorised(self, schema_id: int, template_id: int, request_type: int | None, principal: bytes) -> bool:  # noqa: ARG002 - always
        """The fixed answer."""
        return self._answer


BACKUP_TEMPLATES: Final = frozenset(
    {cm.BackupQuery.TEMPLATE_ID, cm.HeartbeatRequest.TEMPLATE_ID, cm.StandbySnapshot.TEMPLATE_ID}
)


def authorisation_named(name: str) -> AuthorisationService:
    """The authorisation service for `ALLOW_ALL`, `DENY_ALL`, `package.module:Class` or "".

    "" is the default: it allows the requests of backups and no AdminRequest. Raises `UsageError` when `name` is not the
    name of an authorisation service.
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
    """An authenticator of class `package.module:Class`, or for "" one that accepts everyone.

    Raises `UsageError` when `name` is not the name of an authenticator.
    """
    if not name:
        return AcceptEveryone()
    authenticator = make_named("authenticator", name)
    if not isinstance(authenticator, Authenticator):
        raise UsageError(f"authenticator {name!r} lacks a method of cluster.authentication.Authenticator")
    return authenticator
