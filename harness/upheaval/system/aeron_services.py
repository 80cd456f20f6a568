"""Refuses services and client programs for members of Aeron that cannot be loaded, before anything starts."""

from collections.abc import Sequence
from pathlib import Path

from upheaval.errors import UsageError
from upheaval.records.class_path import class_name, class_path_of
from upheaval.system.cluster_spec import ClusterSpec
from upheaval.workload import SERVICES, SILENT_SERVICES
from upheaval_node.suggestions import did_you_mean


def require_services(spec: ClusterSpec, system: str) -> None:
    """Raises `UsageError` for an invalid name, or a class path that does not exist where it should. Also checks the
    client program.
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
    if not class_name(named) or ":" not in named or named.startswith(":"):
        raise UsageError(f"{what} {named!r}: on system {system} expected CLASSPATH:Class")


def _is_there(entry: Path) -> bool:
    return (entry.parent if entry.name == "*" else entry).exists()
