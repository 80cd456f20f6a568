"""Finds the service that a configuration names, and makes one."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from upheaval_node.errors import UsageError
from upheaval_node.named_classes import make_named
from upheaval_node.service.api import ClusteredService

SHORT_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        name: f"upheaval_node.service.services.{name}:{name.capitalize()}"
        for name in ("echo", "register", "append", "workbench", "timers", "ledger", "tally")
    }
)


def load_service(name: str) -> ClusteredService:
    """Create the service that `name` names, as `package.module:Class` or as one of SHORT_NAMES.

    Raises `UsageError` that names the wrong part, see `named_classes.make_named`.
    """
    service = make_named("service", SHORT_NAMES.get(name, name), f"one of {', '.join(SHORT_NAMES)}", SHORT_NAMES)
    if not isinstance(service, ClusteredService):
        raise UsageError(f"service {name!r}: {type(service).__name__} is not a subclass of ClusteredService")
    return service
