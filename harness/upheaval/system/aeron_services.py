"""How a service in Java of a user's own is named: `CLASSPATH:Class`, as `target/auction.jar:auction.AuctionService`.

The class path is one of Java's, relative to the folder with the user's code. This module looks at names and files.
"""

from collections.abc import Sequence
from pathlib import Path, PurePath

from upheaval.errors import UsageError
from upheaval.system.cluster_spec import ClusterSpec
from upheaval.workload import SERVICES, SILENT_SERVICES
from upheaval_node.suggestions import did_you_mean


def name_in_member(service: str) -> str:
    """What the member program is told: the class, or the name of a shipped service."""
    return service.rpartition(":")[2]


def class_path_of(service: str, folders: Sequence[str]) -> list[str]:
    """The entries in each of the folders; none for a shipped service."""
    entries = [entry for entry in service.split(":")[:-1] if entry]
    return [str(PurePath(folder, entry)) for folder in folders for entry in entries]


def require_services(spec: ClusterSpec, system: str) -> None:
    """Raises `UsageError` for a name that is none, and for a class path that is not there where it should be; of the
    client program, too.
    """
    for name in (spec.service, *spec.more_services):
        if ":" not in name and name not in (*SERVICES, *SILENT_SERVICES):
            known = ", ".join(SERVICES)
            hint = did_you_mean(name, SERVICES)
            raise UsageError(f"service {name!r}: on system {system} use one of {known} or CLASSPATH:Class{hint}")
    if ":" in spec.service:
        _require_class("service", spec.service, class_path_of(spec.service, spec.python_path), system)
    if spec.client:
        _require_class("client", spec.client, spec.client.split(":")[:-1], system)


def _require_class(what: str, named: str, class_path: Sequence[str], system: str) -> None:
    missing = [entry for entry in class_path if not _is_there(Path(entry))]
    if missing:
        raise UsageError(f"{what} {named!r}: {missing[0]} is missing: build it first (CLASSPATH:Class)")
    if not name_in_member(named) or ":" not in named or named.startswith(":"):
        raise UsageError(f"{what} {named!r}: on system {system} expected CLASSPATH:Class")


def _is_there(entry: Path) -> bool:
    return (entry.parent if entry.name == "*" else entry).exists()
