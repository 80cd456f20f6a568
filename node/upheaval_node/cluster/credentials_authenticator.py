"""The authenticator and the authorisation that a book of credentials makes: setting `credentials:SOURCE`.

A client names its principal in the connect request, is challenged, and is let in when its answer proves the secret.
Nobody is let in otherwise, and a principal that is not in the book is treated like one that is until the end. Knows
nothing of where the book comes from, or of how sessions open.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from upheaval_node.cluster.authentication import BACKUP_TEMPLATES, SessionProxy
from upheaval_node.credentials import MAX_PRINCIPAL_LENGTH, NONCE_LENGTH, Challenge, CredentialsBook
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.settings import ClusterSettings
from upheaval_node.types import Now

AUTHENTICATOR_PREFIX: Final = "credentials:"
AUTHORISATION_PREFIX: Final = "roles:"

ADMIN_ROLE: Final = "admin"
"""May send AdminRequests."""

BACKUP_ROLE: Final = "backup"
"""May ask for what backups and standby members ask for."""

MIN_CLAIMS: Final = 64


@dataclass(slots=True)
class _Claim:
    """What one session said of itself so far."""

    principal: bytes
    challenge: Challenge | None = None
    answer: bytes | None = None


class CredentialsAuthenticator:
    """Implements `authentication.Authenticator`. `max_claims` bounds the sessions that it remembers at once."""

    def __init__(self, book: CredentialsBook, random: Random, *, max_claims: int) -> None:
        self._book = book
        self._random = random
        self._max_claims = max_claims
        self._claims: OrderedDict[int, _Claim] = OrderedDict()

    def on_connect_request(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:  # noqa: ARG002 - a challenge does not age
        # A session that ends before it was decided about is not heard of again: the oldest are forgotten.
        while len(self._claims) >= self._max_claims:
            self._claims.popitem(last=False)
        self._claims[session_id] = _Claim(bytes(encoded_credentials[: MAX_PRINCIPAL_LENGTH + 1]))

    def on_connected_session(self, now: Now, proxy: SessionProxy) -> None:  # noqa: ARG002 - a challenge does not age
        claim = self._claims.get(proxy.session_id)
        if claim is None:
            proxy.reject()
            return
        if claim.challenge is None:
            verifier = self._book.verifier(claim.principal)
            claim.challenge = Challenge(self._random.randbytes(NONCE_LENGTH), verifier.salt, verifier.count)
        proxy.challenge(claim.challenge.encode())

    def on_challenge_response(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:  # noqa: ARG002 - a challenge does not age
        claim = self._claims.get(session_id)
        if claim is not None and claim.answer is None:
            claim.answer = bytes(encoded_credentials)

    def on_challenged_session(self, now: Now, proxy: SessionProxy) -> None:  # noqa: ARG002 - a challenge does not age
        claim = self._claims.get(proxy.session_id)
        if claim is None:
            proxy.reject()
        elif claim.answer is not None:
            del self._claims[proxy.session_id]
            assert claim.challenge is not None
            verifier = self._book.verifier(claim.principal)
            is_proved = verifier.accepts(claim.answer, claim.principal, claim.challenge)
            if is_proved and claim.principal in self._book:
                proxy.authenticate(claim.principal)
            else:
                proxy.reject()


class RolesOfCredentials:
    """Implements `authentication.AuthorisationService`: what a principal may ask for stands behind its verifier."""

    def __init__(self, book: CredentialsBook) -> None:
        self._book = book

    def is_authorised(self, schema_id: int, template_id: int, request_type: int | None, principal: bytes) -> bool:  # noqa: ARG002 - all kinds of request alike
        if schema_id != cm.SCHEMA.table.schema_id:
            return False
        if template_id == cm.AdminRequest.TEMPLATE_ID:
            return self._book.has_role(principal, ADMIN_ROLE)
        return template_id in BACKUP_TEMPLATES and self._book.has_role(principal, BACKUP_ROLE)


def credentials_authenticator(
    settings: ClusterSettings, read: Callable[[str], str], random: Random
) -> CredentialsAuthenticator | None:
    """What the setting `credentials:SOURCE` stands for; None for any other. Raises `UsageError` for a bad book."""
    source = settings.authenticator.removeprefix(AUTHENTICATOR_PREFIX)
    if source == settings.authenticator:
        return None
    # Twice as many as may wait: those that were let in or refused are forgotten at once.
    return CredentialsAuthenticator(
        CredentialsBook(read(source), source), random, max_claims=2 * settings.max_sessions + MIN_CLAIMS
    )


def credentials_roles(settings: ClusterSettings, read: Callable[[str], str]) -> RolesOfCredentials | None:
    """What the setting `roles:SOURCE` stands for; None for any other. Raises `UsageError` for a bad book."""
    source = settings.authorisation.removeprefix(AUTHORISATION_PREFIX)
    return None if source == settings.authorisation else RolesOfCredentials(CredentialsBook(read(source), source))
