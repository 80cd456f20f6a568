"""Who may connect to a simulated cluster, with what its own clients show; and strangers, who show something wrong.

A stranger writes down what the cluster answered.
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
"""What the settings of a simulated member call its credentials file."""
CLIENT: Final = "client"
COMPANION: Final = "companion"
BACKUP_ROLE: Final = "backup"
PAUSE_NS: Final = S
"""Between two attempts of a stranger."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The credentials file of a cluster, and the secrets that go with it: of clients, and of what is beside members."""

    users: str
    client: CredentialsSupplier
    companion: CredentialsSupplier

    def policy(self) -> dict[str, Json]:
        """As `security.json` has it."""
        principals = sorted(name.decode() for name in Credentials(self.users, SOURCE).principals)
        return {AUTHORITIES: None, PRINCIPALS: list(principals)}


def make_gate(seed: int) -> Gate:
    """One client and one companion. The least count of hashes: time is not what they are there for here."""
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
    """Tries to open a session again and again, with one wrong thing after the other. Implements `ports.Agent`."""

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
        """One attempt at a time."""
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
        """That of the session, or of the next attempt."""
        return self._retry_ns if self._session is None else self._session.next_deadline_ns()
