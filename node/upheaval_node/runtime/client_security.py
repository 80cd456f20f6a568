"""What a client shows of itself and asks of the members, made of its options: an identity for TLS, and credentials."""

from collections.abc import Callable

from upheaval_node.credentials import CredentialsSupplier
from upheaval_node.runtime.credentials_file import credentials_supplier
from upheaval_node.runtime.tls import Refusal, TlsIdentity, TlsRules
from upheaval_node.tls_files import MEMBER, TlsFiles


def client_identity(files: TlsFiles | None, report: Callable[[str], None]) -> TlsIdentity | None:
    """The TLS identity of a client, which only members may dial, or None; `report` gets the reasons of refusals.

    Raises `UsageError` for files that cannot be used.
    """
    if files is None:
        return None
    identity = TlsIdentity(files, TlsRules(accepted_elsewhere=(MEMBER,)))

    def on_refused(refusal: Refusal, peer: str) -> None:
        report(f"{peer}: {refusal.text}")

    identity.on_refused = on_refused
    return identity


def client_credentials(given: CredentialsSupplier | None, source: str) -> CredentialsSupplier:
    """The given supplier, or one of the credentials in a file or `env:NAME`. Raises `UsageError`."""
    return given or credentials_supplier(source)
