"""The certificates and credentials of a cluster, as its folder knows them and its members and clients are given them.

A folder of certificates is one as `upheaval.security.certificates` makes it. Processes read their files in place;
what runs in a container gets copies. Knows files, no runtimes.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from upheaval.checkers.protocol.identities import AUTHORITIES, PRINCIPALS, SECURITY_FILE
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records import Json, copy_private, jsonfields, write_atomically
from upheaval.security.certificates import AUTHORITY, CLIENT
from upheaval_node.credentials import Credentials
from upheaval_node.errors import NodeError
from upheaval_node.runtime.credentials_file import read_source
from upheaval_node.runtime.tls import TlsIdentity
from upheaval_node.tls_files import TlsFiles, member_name

COPIES: Final = "tls"
"""Where in the folder of a member in a container its copies are."""

CREDENTIALS_COPY: Final = "credentials"
FILES_OF_COPIES: Final[Mapping[str, str]] = {
    "authority": f"{COPIES}/authority.pem",
    "certificate": f"{COPIES}/certificate.pem",
    "key": f"{COPIES}/key.pem",
}


def files_of(folder: str | Path, name: str) -> TlsFiles:
    """The files of `name` in a folder of certificates."""
    place = Path(folder)
    return TlsFiles(str(place / f"{AUTHORITY}.pem"), str(place / f"{name}.pem"), str(place / f"{name}.key"))


def fields_of(folder: str, name: str) -> dict[str, str]:
    """The same as a configuration holds it; nothing without a folder."""
    if not folder:
        return {}
    files = files_of(folder, name)
    return {"authority": files.authority, "certificate": files.certificate, "key": files.key}


def client_files(folder: str) -> TlsFiles | None:
    """What clients of a cluster show; None for a cluster without TLS."""
    return files_of(folder, CLIENT) if folder else None


def require_certificates(folder: Path, names: Iterable[str]) -> None:
    """Raises `UsageError` with one line when the files of a name are missing, broken or out of date."""
    for name in names:
        try:
            identity = TlsIdentity(files_of(folder, name))
        except NodeError as error:
            raise UsageError(f"certificates in {folder}: {error}") from error
        if identity.name != name:
            raise UsageError(f"certificates in {folder}: {name}.pem is the certificate of {identity.name}")


def names_needed(members: int) -> list[str]:
    """Whose files a cluster cannot do without."""
    return [*(member_name(member_id) for member_id in range(members)), CLIENT]


def require_credentials_file(path: Path) -> None:
    """Raises `UsageError` for a file that is no credentials file."""
    try:
        Credentials(read_source(str(path)), str(path))
    except NodeError as error:
        raise UsageError(str(error)) from error


def principals_of(credentials: str) -> list[str]:
    """The names in a credentials file, in order."""
    return sorted(name.decode() for name in Credentials(read_source(credentials), credentials).principals)


def note_policy(run: Path, folder: str, credentials: str, members: int) -> None:
    """Write down in the run folder who is to be let in, for the verdict; nothing for a cluster that lets everybody in.

    Authorities and principals of before stay in it: what they did then was right.
    """
    if not folder and not credentials:
        return
    path = run / SECURITY_FILE
    before = jsonfields.read_object(path) if path.exists() else {}
    fields: dict[str, Json] = {AUTHORITIES: None, PRINCIPALS: None}
    if folder:
        made = {TlsIdentity(files_of(folder, name)).authority for name in names_needed(members)}
        fields[AUTHORITIES] = _with(before.get(AUTHORITIES), made)
    if credentials:
        fields[PRINCIPALS] = _with(before.get(PRINCIPALS), set(principals_of(credentials)))
    write_atomically(path, json.dumps(fields, indent=2) + "\n")


def _with(before: Json, names: set[str]) -> list[Json]:
    known = {name for name in before if isinstance(name, str)} if isinstance(before, list) else set()
    return [*sorted(known | names)]


def copy_for_container(certificates: str, name: str, credentials: str, target: Path) -> None:
    """Put copies of the certificates of `name` and of the credentials file, if any, into what a container will have."""
    if certificates:
        _copy_files(certificates, name, target)
    if credentials:
        _copy_credentials(credentials, target)


def _copy_files(folder: str, name: str, target: Path) -> None:
    files = files_of(folder, name)
    copies = target / COPIES
    try:
        copies.mkdir(parents=True, exist_ok=True)
        for source, copy in zip((files.authority, files.certificate, files.key), FILES_OF_COPIES.values(), strict=True):
            copy_private(Path(source), target / copy)
    except OSError as error:
        raise EnvironmentFault(f"cannot copy the certificates of {name}: {error}") from error


def _copy_credentials(credentials: str, target: Path) -> None:
    try:
        target.mkdir(parents=True, exist_ok=True)
        copy_private(Path(credentials), target / CREDENTIALS_COPY)
    except OSError as error:
        raise EnvironmentFault(f"cannot copy the credentials {credentials}: {error}") from error
