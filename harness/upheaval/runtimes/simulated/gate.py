"""Access control of a simulated cluster: its credentials, its own clients, and strangers with wrong credentials.

A stranger records the cluster's answers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from upheaval.checkers.protocol.identities import AUTHORITIES, PRINCIPALS
from upheaval.records import ConnectAnswer, ConnectAttempt, Json, WrongCredentials
from upheaval.security.strangers import wrong_credentials
from upheaval_node.bell import Bell
from upheaval_node.client.connect import AuthenticationError
from upheaval_node.client.session import ClusterClient
from upheaval_node.credentials import (
    MIN_COUNT,
    SALT_LENGTH,
    Credentials,
    CredentialsSupplier,
    SecretCredentials,
    make_verifier,
)
from upheaval_node.types import Now, S

SOURCE: Final = "users"
"""The name of the credentials file in a simulated member's settings."""
CLIENT: Final = "client"
COMPANION: Final = "companion"
BACKUP_ROLE: Final = "backup"
PAUSE_NS: Final = S
"""The time between two attempts of a stranger."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The credentials file of a cluster, and the secrets that match it: of clients and of companions."""

    users: str
    client: CredentialsSupplier
    companion: CredentialsSupplier

    def policy(self) -> dict[str, Json]:
        """The policy in the form of `security.json`."""
        principals = sorted(name.decode() for name in Credentials(self.users, SOURCE).principals)
        return {AUTHORITIES: None, PRINCIPALS: list(principals)}


def make_gate(seed: int) -> Gate:
    """A gate for one client and one companion. It uses the fewest hash rounds, since slow hashes serve no
    purpose here.
    """
    roles = {CLIENT: frozenset[str](), COMPANION: frozenset({BACKUP_ROLE})}
    lines = [
        f"{name}:{make_verifier(_secret(seed, name), name.encode().ljust(SALT_LENGTH), its, MIN_COUNT)}"
        for name, its in roles.items()
    ]
    client, companion = (SecretCredentials(name, _secret(seed, name)) for name in roles)
    return Gate("\n".join(lines) + "\n", client, companion)


def _secret(seed: int, name: str) -> str:
    return f"{name}/{seed}"


class Stranger:
    """Tries again and again to open a session, with one wrong credential after another. Implements `ports.Agent`."""

    def __init__(
        self, open_session: Callable[[CredentialsSupplier], ClusterClient], record: Callable[[ConnectAttempt], None]
    ) -> None:
        self.bell: Bell | None = None
        self._open_session = open_session
        self._record = record
        self._wrong = list(wrong_credentials(CLIENT).items())
        self._shown = WrongCredentials.SECRET
        self._attempts = 0
        self._session: ClusterClient | None = None
        self._retry_ns = 0

    def do_work(self, now: Now) -> int:
        """Makes one attempt at a time."""
        if self._session is None:
            if now.ns < self._retry_ns:
                return 0
            self._shown, wrong = self._wrong[self._attempts % len(self._wrong)]
            self._session = self._open_session(wrong)
            self._attempts += 1
        session = self._session
        work = session.do_work(now)
        if session.is_connected:
            self._record(ConnectAttempt(self._shown, ConnectAnswer.ADMITTED, now.ns))
            session.close()
        elif not session.is_closed:
            return work
        else:
            answer = ConnectAnswer.REFUSED if isinstance(session.error, AuthenticationError) else ConnectAnswer.NONE
            self._record(ConnectAttempt(self._shown, answer, now.ns))
        self._session, self._retry_ns = None, now.ns + PAUSE_NS
        return work + 1

    def next_deadline_ns(self) -> int:
        """The deadline of the session, or of the next attempt."""
        return self._retry_ns if self._session is None else self._session.next_deadline_ns()
