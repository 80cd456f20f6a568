"""Mutual TLS: certificates read from files, contexts made from them, and the reasons for refusals.

Theory of operation. Both ends show a certificate of the one authority. The name in it identifies them, and `TlsRules`
decide which names are accepted where. Files are read at the start and again by `reload`. New files are first tested in
memory, certificate against authority, so that a bad file changes nothing. Existing connections keep what they were made
with. The module knows no sockets. Source: RFC 8446 (TLS 1.3).
"""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from upheaval_node.errors import UsageError
from upheaval_node.tls_files import ANYBODY, TlsFiles, allows, name_among, split_name

_MAX_HANDSHAKE_STEPS: Final = 10

_VERIFICATION_KINDS: Final = {
    9: "not-yet-valid",
    10: "expired",
    18: "wrong-authority",
    19: "wrong-authority",
    20: "wrong-authority",
    21: "wrong-authority",
}
"""OpenSSL's X509_V_ERR codes that operators have to distinguish."""

_REASON_KINDS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no-certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "reported-no-certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "reported-expired",
    "TLSV1_ALERT_UNKNOWN_CA": "reported-wrong-authority",
    "SSLV3_ALERT_BAD_CERTIFICATE": "reported-not-yet-valid",
    "TLSV1_ALERT_ACCESS_DENIED": "reported-wrong-name",
}
"""What a peer did or reported. The alerts are those of RFC 8446, section 6.2, under OpenSSL's names."""

_TEXTS: Final = {
    "not-yet-valid": "its certificate is not valid yet",
    "expired": "its certificate has expired",
    "wrong-authority": "its certificate is not of our authority",
    "no-certificate": "it shows no certificate",
    "reported-no-certificate": "it wants a certificate of us, and we showed none",
    "reported-expired": "it says that our certificate has expired",
    "reported-wrong-authority": "it says that our certificate is not of its authority",
    "reported-not-yet-valid": "it says that our certificate is bad, as it is before its time",
    "not-tls": "it does not speak TLS 1.3",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a connection is not used. `kind` is one of a few words."""

    kind: str
    text: str


class Peer(NamedTuple):
    """The other end of a connection. `authority` is the common name of its certificate's issuer."""

    name: str
    address: str
    is_dialled: bool
    authority: str


class _Own(NamedTuple):
    name: str
    not_after: str
    authority: str


@dataclass(frozen=True, slots=True)
class TlsRules:
    """Which names are accepted where.

    `accepted` holds the name patterns for each listening address, `accepted_elsewhere` those for all others. A dialled
    address names the expected peer itself (`name@host:port`).
    """

    accepted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    accepted_elsewhere: tuple[str, ...] = (ANYBODY,)

    def accepted_at(self, address: str) -> tuple[str, ...]:
        """The patterns of names that may connect to this address."""
        return self.accepted.get(address, self.accepted_elsewhere)


class TlsIdentity:
    """The process's certificate and authority, for all new connections.

    `on_secured(peer)` and `on_refused(refusal, address)` report the outcome of each connection.
    """

    def __init__(self, files: TlsFiles, rules: TlsRules | None = None) -> None:
        """Raises `UsageError` for files that are missing, broken, do not belong together or are out of date."""
        self.rules = rules or TlsRules()
        self.on_secured: Callable[[Peer], None] | None = None
        self.on_refused: Callable[[Refusal, str], None] | None = None
        self._files = files
        self._client, self._server, own = _read(files)
        self.name, self.not_after, self.authority = own

    def reload(self) -> None:
        """Read the files again. Raises `UsageError`, and then keeps the previous ones."""
        client, server, own = _read(self._files)
        if own.name != self.name:
            raise UsageError(f"{self._files.certificate} is the certificate of {own.name}, and this is {self.name}")
        self._client, self._server = client, server
        _, self.not_after, self.authority = own

    def make(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *, is_server: bool) -> ssl.SSLObject:
        """The TLS end of a new connection."""
        context = self._server if is_server else self._client
        return context.wrap_bio(incoming, outgoing, server_side=is_server)

    def secured(self, peer: Peer) -> None:
        """A connection is established: both ends know each other's names."""
        if self.on_secured is not None:
            self.on_secured(peer)

    def refused(self, refusal: Refusal, peer: str) -> None:
        """A connection failed, whichever end refused it."""
        if self.on_refused is not None:
            self.on_refused(refusal, split_name(peer)[1])


def peer_name(tls: ssl.SSLObject) -> str | None:
    """The name of the other end; None when its certificate does not name it clearly."""
    names = _names(tls)
    name = name_among(names)
    return name if name is not None and name.isprintable() and "@" not in name and " " not in name else None


def issuer_of(tls: ssl.SSLObject) -> str:
    """The common name of the issuer of the other end's certificate; empty when there is none."""
    for pairs in (tls.getpeercert() or {}).get("issuer", ()):
        for pair in pairs:
            if len(pair) == 2 and pair[0] == "commonName":
                return str(pair[1])
    return ""


def check_name(tls: ssl.SSLObject, patterns: tuple[str, ...]) -> str | Refusal:
    """The name of the other end, or why it is not accepted here."""
    name = peer_name(tls)
    if name is None:
        return Refusal("wrong-name", f"its certificate names {_names(tls)[:4]}, which is not one of us")
    if not allows(patterns, name):
        return Refusal("wrong-name", f"it is {name[:100]}, and only {' or '.join(patterns)} is wanted here")
    return name


def refusal_of(error: ssl.SSLError) -> Refusal:
    """The reason why a handshake failed, or of a later alert."""
    if isinstance(error, ssl.SSLCertVerificationError):
        kind = _VERIFICATION_KINDS.get(error.verify_code, "bad-certificate")
        return Refusal(kind, _TEXTS.get(kind, f"its certificate is bad: {error.verify_message}"))
    reason = error.reason or ""
    if "ALERT" in reason or reason in _REASON_KINDS:
        kind = _REASON_KINDS.get(reason, "reported-error")
        return Refusal(kind, _TEXTS.get(kind, f"it refuses us: {_words(reason)}"))
    return Refusal("not-tls", f"{_TEXTS['not-tls']} ({_words(reason) or 'bytes that make no sense'})")


def _words(reason: str) -> str:
    return reason.replace("_", " ").lower()


def _names(tls: ssl.SSLObject) -> list[str]:
    certificate = tls.getpeercert() or {}
    pairs = certificate.get("subjectAltName", ())
    return [str(pair[1]) for pair in pairs if isinstance(pair, tuple) and len(pair) == 2 and pair[0] == "DNS"]


def _read(files: TlsFiles) -> tuple[ssl.SSLContext, ssl.SSLContext, _Own]:
    """Make contexts for both ends, and read the member's certificate. Raises `UsageError`."""
    client = _context(files, ssl.PROTOCOL_TLS_CLIENT)
    server = _context(files, ssl.PROTOCOL_TLS_SERVER)
    # With a ticket, a later connection could skip the check of the certificate.
    server.num_tickets = 0
    own = _try_out(client, server, files)
    name = peer_name(own)
    if name is None:
        raise UsageError(
            f"{files.certificate} names {_names(own)}: it needs one subjectAltName like member-0 or client"
        )
    return client, server, _Own(name, str((own.getpeercert() or {}).get("notAfter", "")), issuer_of(own))


def _context(files: TlsFiles, protocol: "ssl._SSLMethod") -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Our own code checks the names, after the handshake.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    path = files.authority
    try:
        context.load_verify_locations(files.authority)
        path = files.certificate
        # An empty password: an encrypted key must not make the process ask on its terminal.
        context.load_cert_chain(files.certificate, files.key, password=b"")
    except ssl.SSLError as error:
        raise UsageError(f"cannot use {path} for TLS: {_words(error.reason or 'no PEM file')}") from error
    except OSError as error:
        # The certificate and its key are opened in one call, whose error does not name the missing file.
        which = path if path == files.authority else f"{files.certificate} with {files.key}"
        raise UsageError(f"cannot read {which}: {error.strerror}") from error
    return context


def _try_out(client_context: ssl.SSLContext, server_context: ssl.SSLContext, files: TlsFiles) -> ssl.SSLObject:
    """Connect both ends in memory: peers with the same authority must be able to accept the certificate."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    done: set[ssl.SSLObject] = set()
    try:
        for _ in range(_MAX_HANDSHAKE_STEPS):
            for end in (client, server):
                try:
                    end.do_handshake()
                    done.add(end)
                except ssl.SSLWantReadError:
                    continue
            if len(done) == 2:
                break
    except ssl.SSLError as error:
        text = refusal_of(error).text.replace("its certificate", "the certificate")
        raise UsageError(f"{files.certificate} cannot be used: {text}") from error
    return server
