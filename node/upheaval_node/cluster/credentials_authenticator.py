"""The authenticator and the authorisation of a credentials file (settings `credentials:SOURCE` and `roles:SOURCE`).

A client names its principal in the connect request, gets a challenge, and is let in only if its answer proves the
secret. A principal that is not in the credentials file goes through the same steps and is refused at the end. Knows
nothing of where the file comes from, or of how sessions open.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from upheaval_node.cluster.authentication import BACKUP_TEMPLATES, SessionProxy
from upheaval_node.credentials import KEY_LENGTH, MAX_USER_LENGTH, NONCE_LENGTH, Challenge, Credentials
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.settings import ClusterSettings
from upheaval_node.types import Now

AUTHENTICATOR_PREFIX: Final = "credentials:"
AUTHORISATION_PREFIX: Final = "roles:"

ADMIN_ROLE: Final = "admin"
"""The role that may send AdminRequests."""

BACKUP_ROLE: Final = "backup"
"""The role that may send the requests of backups and standby members."""

MIN_CLAIMS: Final = 64


@dataclass(slots=True)
class _Claim:
    """What one session has claimed so far."""

    principal: bytes
    challenge: Challenge | None = None
    answer: bytes | None = None


class CredentialsFile:
    """A credentials file and where it comes from."""

    def __init__(self, source: str, read: Callable[[str], str]) -> None:
        """Read the file. Raises `UsageError` for a bad credentials file."""
        self._source = source
        self._read = read
        self.credentials = Credentials(read(source), source)

    def reload(self) -> None:
        """Read the file again. If that raises `UsageError`, the previous credentials stay in use."""
        self.credentials = Credentials(self._read(self._source), self._source)


class CredentialsAuthenticator:
    """Implements `authentication.Authenticator`. `max_claims` limits the number of sessions it remembers."""

    def __init__(self, file: CredentialsFile, random: Random, *, max_claims: int) -> None:
        self._file = file
        self._random = random
        self._max_claims = max_claims
        self._claims: OrderedDict[int, _Claim] = OrderedDict()

    def on_connect_request(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:  # noqa: ARG002 - a challenge does not age
        """Take the credentials as the name of a principal. Beyond `max_claims` the oldest claim is forgotten."""
        # There is no call for a session that ends undecided, so the oldest claims are forgotten. Ids of backup sessions
        # are reused.
        self._claims.pop(session_id, None)
        while len(self._claims) >= self._max_claims:
            self._claims.popitem(last=False)
        self._claims[session_id] = _Claim(bytes(encoded_credentials[: MAX_USER_LENGTH + 1]))

    def on_connected_session(self, now: Now, proxy: SessionProxy) -> None:  # noqa: ARG002 - a challenge does not age
        """Challenge the client with a nonce and with the salt and count of the principal's verifier."""
        claim = self._claims.get(proxy.session_id)
        if claim is None:
            proxy.reject()
            return
        if claim.challenge is None:
            verifier = self._file.credentials.verifier(claim.principal)
            claim.challenge = Challenge(self._random.randbytes(NONCE_LENGTH), verifier.salt, verifier.count)
        proxy.challenge(claim.challenge.encode())

    def on_challenge_response(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:  # noqa: ARG002 - a challenge does not age
        """Keep the answer; only the first one counts."""
        claim = self._claims.get(session_id)
        if claim is not None and claim.answer is None:
            claim.answer = bytes(encoded_credentials[: KEY_LENGTH + 1])

    def on_challenged_session(self, now: Now, proxy: SessionProxy) -> None:  # noqa: ARG002 - a challenge does not age
        """Accept a proof of the principal's secret, and reject any other answer."""
        claim = self._claims.get(proxy.session_id)
        if claim is None:
            proxy.reject()
        elif claim.answer is not None:
            del self._claims[proxy.session_id]
            assert claim.challenge is not None
            credentials = self._file.credentials
            is_proved = credentials.verifier(claim.principal).accepts(claim.answer, claim.principal, claim.challenge)
            if is_proved and claim.principal in credentials:
                proxy.authenticate(claim.principal)
            else:
                proxy.reject()


class RolesOfCredentials:
    """Implements `authentication.AuthorisationService` with the roles that the credentials file gives each
    principal.
    """

    def __init__(self, file: CredentialsFile) -> None:
        self._file = file

    def is_authorised(self, schema_id: int, template_id: int, request_type: int | None, principal: bytes) -> bool:  # noqa: ARG002 - all kinds of request alike
        """An AdminRequest needs the admin role, a request of backups or standbys the backup role."""
        if schema_id != cm.SCHEMA.table.schema_id:
            return False
        if template_id == cm.AdminRequest.TEMPLATE_ID:
            return self._file.credentials.has_role(principal, ADMIN_ROLE)
        return template_id in BACKUP_TEMPLATES and self._file.credentials.has_role(principal, BACKUP_ROLE)


def credentials_of(
    settings: ClusterSettings, read: Callable[[str], str], random: Random
) -> tuple[CredentialsAuthenticator | None, RolesOfCredentials | None, list[CredentialsFile]]:
    """The authenticator for `credentials:SOURCE`, the authorisation for `roles:SOURCE`, and their files.

    Each of the first two is None for any other setting. Raises `UsageError` for a bad credentials file.
    """
    authenticator, roles = None, None
    files: list[CredentialsFile] = []
    source = settings.authenticator.removeprefix(AUTHENTICATOR_PREFIX)
    if source != settings.authenticator:
        files.append(CredentialsFile(source, read))
        # Twice the number of sessions: a claim is dropped as soon as its session is accepted or refused.
        max_claims = 2 * settings.max_sessions + MIN_CLAIMS
        authenticator = CredentialsAuthenticator(files[-1], random, max_claims=max_claims)
    source = settings.authorisation.removeprefix(AUTHORISATION_PREFIX)
    if source != settings.authorisation:
        files.append(CredentialsFile(source, read))
        roles = RolesOfCredentials(files[-1])
    return authenticator, roles, files
