"""The identity of a client: principals and secrets, and the proof of a secret that does not show it.

The proof is that of SCRAM-SHA-256 (RFC 5802 section 3, RFC 7677) over one challenge: the cluster keeps a salt, a count
and a key from which neither the secret nor a proof can be made, and a proof is worth nothing for another challenge. A
secret crosses no network and is in no file of the cluster. Knows no sessions, no messages and no files.

Texts: a client has a line `principal:secret`; the cluster has a line for each principal,
`principal:$scram-sha-256$COUNT$SALT$KEY` with `:role,role` after it where it has roles, salt and key in base64. Empty
lines and those that begin with `#` mean nothing.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

from upheaval_node.errors import UsageError

SCHEME: Final = "scram-sha-256"
COUNT: Final = 100_000
"""How often a new verifier hashes the secret; only the client has to do it, once for each salt."""

MIN_COUNT: Final = 4096
"""Source: RFC 7677. A client does no less: a secret is easier to guess from a proof with fewer rounds."""

MAX_COUNT: Final = 1_000_000
"""A client does no more, so that no cluster can keep it busy."""

SALT_LENGTH: Final = 16
NONCE_LENGTH: Final = 24
KEY_LENGTH: Final = 32
MAX_USER_LENGTH: Final = 256
"""Bytes of a principal in a credentials file; a custom authenticator may use longer ones."""

MAX_CHALLENGE_LENGTH: Final = 512


class CredentialsSupplier(Protocol):
    """What a client, or a backup, shows of itself (Aeron: CredentialsSupplier)."""

    def encoded_credentials(self) -> bytes:
        """What the connect request carries (SessionConnectRequest.encodedCredentials)."""

    def on_challenge(self, encoded_challenge: bytes) -> bytes:
        """The answer to a challenge of the cluster's authenticator."""


class NoCredentials:
    """Empty credentials and empty answers."""

    def encoded_credentials(self) -> bytes:
        """Always empty."""
        return b""

    def on_challenge(self, encoded_challenge: bytes) -> bytes:  # noqa: ARG002 - there is nothing to answer with
        """Always empty, so a cluster that challenges refuses."""
        return b""


class SecretCredentials:
    """Names its principal, and proves by the answer to a challenge that it knows the secret.

    A challenge that is none of ours, or that asks for too little or too much work, gets an empty answer, which no
    cluster accepts.
    """

    def __init__(self, principal: str, secret: str) -> None:
        check_principal(principal)
        if not secret:
            raise UsageError(f"the secret of {principal!r} is empty")
        self.principal = principal
        self._secret = secret

    def encoded_credentials(self) -> bytes:
        """The principal alone: the secret is never sent."""
        return self.principal.encode()

    def on_challenge(self, encoded_challenge: bytes) -> bytes:
        """The proof of the secret for this challenge; empty for a challenge that is not acceptable."""
        challenge = Challenge.parse(encoded_challenge)
        if challenge is None:
            return b""
        return proof(client_key(self._secret, challenge.salt, challenge.count), self.principal.encode(), challenge)


@dataclass(frozen=True, slots=True)
class Challenge:
    """What the cluster asks of a principal: a number used once, and how its secret was hashed."""

    nonce: bytes
    salt: bytes
    count: int

    def encode(self) -> bytes:
        """As it travels in Challenge.encodedChallenge: the scheme, nonce and salt in base64, and the count."""
        return f"{SCHEME} {_text(self.nonce)} {_text(self.salt)} {self.count}".encode("ascii")

    @classmethod
    def parse(cls, encoded: bytes) -> "Challenge | None":
        """None for anything that is no challenge a client answers."""
        parts = bytes(encoded[: MAX_CHALLENGE_LENGTH + 1]).split(b" ")
        if len(encoded) > MAX_CHALLENGE_LENGTH or len(parts) != 4 or parts[0] != SCHEME.encode():
            return None
        nonce, salt = _bytes(parts[1]), _bytes(parts[2])
        if nonce is None or salt is None or len(nonce) != NONCE_LENGTH or len(salt) != SALT_LENGTH:
            return None
        count = int(parts[3]) if parts[3].isdigit() and len(parts[3]) <= 7 else 0
        return cls(nonce, salt, count) if MIN_COUNT <= count <= MAX_COUNT else None


@dataclass(frozen=True, slots=True)
class Verifier:
    """What the cluster keeps of a principal's secret, and what the principal may do."""

    salt: bytes
    count: int
    stored_key: bytes
    roles: frozenset[str] = frozenset()

    def accepts(self, answer: bytes, principal: bytes, challenge: Challenge) -> bool:
        """Whether the answer proves the secret. Takes the same time for every wrong answer."""
        signature = _signature(self.stored_key, principal, challenge)
        padded = answer[:KEY_LENGTH].ljust(KEY_LENGTH, b"\0")
        key = bytes(a ^ b for a, b in zip(padded, signature, strict=True))
        return hmac.compare_digest(hashlib.sha256(key).digest(), self.stored_key) and len(answer) == KEY_LENGTH

    def __str__(self) -> str:
        roles = ":" + ",".join(sorted(self.roles)) if self.roles else ""
        return f"${SCHEME}${self.count}${_text(self.salt)}${_text(self.stored_key)}{roles}"


class Credentials:
    """The principals of a cluster, each with its verifier."""

    def __init__(self, text: str, name: str) -> None:
        """`name` is for messages. Raises `UsageError` that names the line which is wrong."""
        self._verifiers: dict[bytes, Verifier] = {}
        for where, line in _lines(text, name):
            principal, separator, rest = line.partition(":")
            check_principal(principal, where)
            if not separator:
                raise UsageError(f"{where} is not of the form principal:verifier")
            if principal.encode() in self._verifiers:
                raise UsageError(f"{where} names {principal!r} for a second time")
            self._verifiers[principal.encode()] = parse_verifier(rest, where)
        # A principal that is not in the credentials file gets the same salt on every member, like one that is in it.
        self._unknown_key = hashlib.sha256(b"unknown principal\0" + text.encode()).digest()

    @property
    def principals(self) -> list[bytes]:
        """The principals in the order of the credentials file."""
        return list(self._verifiers)

    def verifier(self, principal: bytes) -> Verifier:
        """Of a principal that is not in the credentials file: one that accepts nothing and looks like the others."""
        known = self._verifiers.get(principal)
        digest = hmac.digest(self._unknown_key, principal, "sha256")
        return known or Verifier(digest[:SALT_LENGTH], COUNT, hashlib.sha256(digest).digest())

    def has_role(self, principal: bytes, role: str) -> bool:
        """Whether the credentials file gives the principal that role; never for one that it does not name."""
        verifier = self._verifiers.get(principal)
        return verifier is not None and role in verifier.roles

    def __contains__(self, principal: object) -> bool:
        return principal in self._verifiers


def parse_credentials(text: str, name: str) -> SecretCredentials:
    """The content of a client's file: one line `principal:secret`. Raises `UsageError`, which never shows a secret."""
    lines = list(_lines(text, name))
    if len(lines) != 1:
        raise UsageError(f"{name} holds {len(lines)} lines with credentials, not one")
    where, line = lines[0]
    principal, separator, secret = line.partition(":")
    if not separator:
        raise UsageError(f"{where} is not of the form principal:secret")
    check_principal(principal, where)
    return SecretCredentials(principal, secret)


def parse_verifier(text: str, where: str) -> Verifier:
    """`$scram-sha-256$COUNT$SALT$KEY` or the same with `:role,role`. Raises `UsageError`."""
    verifier, _, role_text = text.partition(":")
    parts = verifier.split("$")
    if len(parts) != 5 or parts[0] or parts[1] != SCHEME:
        raise UsageError(f"{where} holds no verifier ${SCHEME}$COUNT$SALT$KEY: `upheaval credentials add` makes one")
    count = int(parts[2]) if parts[2].isascii() and parts[2].isdigit() and len(parts[2]) <= 7 else 0
    salt, key = _bytes(parts[3].encode()), _bytes(parts[4].encode())
    if not MIN_COUNT <= count <= MAX_COUNT:
        raise UsageError(f"{where}: the count must be {MIN_COUNT} to {MAX_COUNT}")
    if salt is None or key is None or len(salt) != SALT_LENGTH or len(key) != KEY_LENGTH:
        raise UsageError(f"{where}: salt or key is not base64 of {SALT_LENGTH} and {KEY_LENGTH} bytes")
    roles = frozenset(role for role in role_text.split(",") if role)
    return Verifier(salt, count, key, roles)


def make_verifier(secret: str, salt: bytes, roles: frozenset[str] = frozenset(), count: int = COUNT) -> Verifier:
    """What a cluster shall keep of a secret; the salt is for the caller to draw."""
    return Verifier(salt, count, hashlib.sha256(client_key(secret, salt, count)).digest(), roles)


def check_principal(principal: str, where: str = "credentials") -> None:
    """Raises `UsageError` for a name that is empty, too long or cannot be in a line."""
    if not principal or len(principal.encode()) > MAX_USER_LENGTH or not principal.isprintable():
        raise UsageError(f"{where}: a principal has 1 to {MAX_USER_LENGTH} printable bytes")
    if ":" in principal or principal.startswith("#") or principal != principal.strip():
        raise UsageError(f"{where}: a principal has no colon, no # at its start and no blanks around it")


@lru_cache(maxsize=64)
def client_key(secret: str, salt: bytes, count: int) -> bytes:
    """The key that only who knows the secret can make (RFC 5802: ClientKey)."""
    return hmac.digest(hashlib.pbkdf2_hmac("sha256", secret.encode(), salt, count), b"Client Key", "sha256")


def proof(key: bytes, principal: bytes, challenge: Challenge) -> bytes:
    """The answer to a challenge (RFC 5802: ClientProof)."""
    signature = _signature(hashlib.sha256(key).digest(), principal, challenge)
    return bytes(a ^ b for a, b in zip(key, signature, strict=True))


def _signature(stored_key: bytes, principal: bytes, challenge: Challenge) -> bytes:
    return hmac.digest(stored_key, principal + b"\0" + challenge.encode(), "sha256")


def _lines(text: str, name: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield f"{name} line {number}", line


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _bytes(encoded: bytes) -> bytes | None:
    try:
        return b64decode(encoded, validate=True)
    except (Base64Error, ValueError):
        return None
