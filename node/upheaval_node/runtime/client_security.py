"""What a client shows of itself and asks of the members, made of its options: an identity for TLS, and credentials."""

from collections.abc import Callable

from upheaval_node.credentials import CredentialsSupplier
from upheaval_node.runtime.credentials_file import credentials_supplier
from upheaval_node.runtime.tls import Refusal, TlsIdentity, TlsRules
from upheaval_node.tls_files import MEMBER, TlsFiles


def client_identity(files: TlsFiles | None, tell: Callable[[str], None]) -> TlsIdentity | None:
    """The identity of a client, whom only members may dial, or none; `tell` hears why a connection was refused.

    Raises `UsageError` for files that cannot be used.
    """
    if files is None:
        return None
    identity = TlsIdentity(files, TlsRules(accepted_elsewhere=(MEMBER,)))

    def on_refused(refusal: Refusal, peer: str) -> None:
        tell(f"{peer}: {refusal.text}")

    identity.on_refused = on_refused
    return identity


def client_credentials(given: CredentialsSupplier | None, source: str) -> CredentialsSupplier:
    """The supplier that was given, or what a file or `env:NAME` holds. Raises `UsageError`."""
    return given or credentials_supplier(source)
