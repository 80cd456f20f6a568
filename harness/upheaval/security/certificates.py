"""A certificate authority and the certificates of a cluster, for tests and demonstrations, made by `openssl`.

Who runs a cluster in earnest has one already; docs/security.md says what a certificate must look like.
The folder holds `authority.pem` and `authority.key`, and for each name `NAME.pem` and `NAME.key`. Knows no clusters.
"""

import re
import secrets
import shutil
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records import PRIVATE, owned_folder, write_private
from upheaval_chaos.programs import run_program

AUTHORITY: Final = "authority"
CLIENT: Final = "client"
CLOCK_SKEW: Final = timedelta(hours=1)
"""Certificates begin so long ago, for hosts whose clocks are behind."""

MAX_DAYS: Final = 36500
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,62}")

_CONFIGURATION: Final = """
[ca]
default_ca = authority
[authority]
new_certs_dir = .
database = index.txt
serial = serial
default_md = sha256
policy = anything
copy_extensions = none
unique_subject = no
[anything]
commonName = supplied
[req]
distinguished_name = names
prompt = no
[names]
commonName = {name}
[of_authority]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[of_holder]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = DNS:{name}
"""


def names_of_cluster(members: int) -> list[str]:
    """Everybody whom a cluster of so many members knows."""
    return [*(f"member-{number}" for number in range(members)), "backup-0", "standby-0", CLIENT]


def create_authority(folder: Path, *, days: int = 365) -> None:
    """A new certificate authority in the folder. Raises `UsageError`; one that is there is left alone."""
    _check_days(days)
    _require_no_authority(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with owned_folder("ca") as scratch:
        place = _Workplace(scratch, f"upheaval authority {secrets.token_hex(4)}")
        place.request(AUTHORITY)
        place.sign(AUTHORITY, AUTHORITY, "of_authority", datetime.now(UTC) - CLOCK_SKEW, days, is_own=True)
        place.hand_over(AUTHORITY, folder)


def create_certificates(folder: Path, names: Iterable[str], *, days: int = 365, begins: datetime | None = None) -> None:
    """New certificates of the folder's authority, in place of those that are there. Raises `UsageError`."""
    _check_days(days)
    chosen = list(names)
    for name in chosen:
        if _NAME.fullmatch(name) is None or name == AUTHORITY:
            raise UsageError(f"{name!r} is not a name for a certificate: use letters, digits and dashes")
    if not (folder / f"{AUTHORITY}.key").exists():
        raise UsageError(f"{folder} holds no authority.key to make certificates with")
    for name in chosen:
        with owned_folder("ca") as scratch:
            place = _Workplace(scratch, name)
            for suffix in (".pem", ".key"):
                shutil.copyfile(folder / f"{AUTHORITY}{suffix}", place.folder / f"{AUTHORITY}{suffix}")
            place.request(name)
            place.sign(name, AUTHORITY, "of_holder", begins or datetime.now(UTC) - CLOCK_SKEW, days)
            place.hand_over(name, folder)


def create_for_cluster(folder: Path, members: int, *, days: int = 365) -> list[str]:
    """A certificate authority and certificates for everybody of a cluster; returns the names. Raises `UsageError`."""
    names = names_of_cluster(members)
    _require_no_authority(folder)
    files = [folder / f"{name}{suffix}" for name in names for suffix in (".key", ".pem")]
    taken = next((path for path in files if path.exists()), None)
    if taken is not None:
        raise UsageError(f"{folder} holds {taken.name} already")
    create_authority(folder, days=days)
    create_certificates(folder, names, days=days)
    return names


def _require_no_authority(folder: Path) -> None:
    if any((folder / f"{AUTHORITY}{suffix}").exists() for suffix in (".key", ".pem")):
        raise UsageError(f"{folder} holds a certificate authority already")


def _check_days(days: int) -> None:
    if not 1 <= days <= MAX_DAYS:
        raise UsageError(f"certificates are good for 1 to {MAX_DAYS} days, not {days}")


class _Workplace:
    """A scratch folder in which `openssl` works."""

    def __init__(self, folder: Path, common_name: str) -> None:
        self.folder = folder
        (folder / "openssl.cnf").write_text(_CONFIGURATION.format(name=common_name), encoding="utf-8")
        (folder / "index.txt").write_text("", encoding="utf-8")
        (folder / "serial").write_text(f"{secrets.randbits(64) | 1 << 63:016X}\n", encoding="utf-8")

    def request(self, name: str) -> None:
        """A new key and a request for its certificate."""
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        self._run("req", "-config", "openssl.cnf", "-new", *curve, "-keyout", f"{name}.key", "-out", f"{name}.csr")

    def sign(
        self, name: str, authority: str, section: str, begins: datetime, days: int, *, is_own: bool = False
    ) -> None:
        dates = ("-startdate", _date(begins), "-enddate", _date(begins + CLOCK_SKEW + timedelta(days=days)))
        issuer = ("-selfsign",) if is_own else ("-cert", f"{authority}.pem")
        files = ("-in", f"{name}.csr", "-out", f"{name}.pem", "-keyfile", f"{authority}.key")
        self._run("ca", "-config", "openssl.cnf", "-batch", "-notext", "-extensions", section, *dates, *issuer, *files)

    def hand_over(self, name: str, folder: Path) -> None:
        """The key first: a process that reads in between finds a pair that does not match, and keeps the old one."""
        for suffix in (".key", ".pem"):
            made = self.folder / f"{name}{suffix}"
            content = made.read_text(encoding="ascii")
            write_private(folder / f"{name}{suffix}", content, mode=PRIVATE if suffix == ".key" else 0o644)

    def _run(self, *arguments: str) -> None:
        run_openssl(arguments, self.folder)


def run_openssl(arguments: Sequence[str], folder: Path) -> None:
    """Raises `EnvironmentFault` with the program's last line."""
    try:
        done = run_program(["openssl", *arguments], folder=folder)
    except FileNotFoundError as error:
        raise EnvironmentFault("certificates are made by the openssl program, which is not installed") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise EnvironmentFault(f"openssl {arguments[0]} failed: {lines[-1]}")


def _date(moment: datetime) -> str:
    return moment.strftime("%Y%m%d%H%M%SZ")
