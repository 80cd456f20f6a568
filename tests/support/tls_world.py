"""Certificates for tests, made once for each run of the tests, and the two ends of connections that use them."""

import shutil
import tempfile
from atexit import register
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from upheaval.security import create_certificates, create_for_cluster
from upheaval_node.tls_files import TlsFiles


@cache
def certificates() -> Path:
    """A folder with the certificates of a cluster of three, and some that no peer should accept; do not change it."""
    folder = Path(tempfile.mkdtemp(prefix="upheaval-tls-"))
    register(shutil.rmtree, folder, ignore_errors=True)
    create_for_cluster(folder, 3)
    now = datetime.now(UTC)
    for name, begins in [("member-7", now - timedelta(days=9)), ("member-8", now + timedelta(days=9))]:
        create_certificates(folder, [name], begins=begins, days=2)
    create_for_cluster(folder / "foreign", 3)
    return folder


def files_of(name: str, folder: Path | None = None, authority: Path | None = None) -> TlsFiles:
    """The three files of one name; those of `folder`, which is the common one if none is given."""
    place = folder or certificates()
    return TlsFiles(str((authority or place) / "authority.pem"), str(place / f"{name}.pem"), str(place / f"{name}.key"))


def own_copy(target: Path) -> Path:
    """A copy of the certificates that a test may change."""
    return Path(shutil.copytree(certificates(), target))
