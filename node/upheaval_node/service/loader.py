"""Finds the service that a configuration names, and makes one."""

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from upheaval_node.errors import UsageError
from upheaval_node.service.api import ClusteredService

SHORT_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        name: f"upheaval_node.service.services.{name}:{name.capitalize()}"
        for name in ("echo", "register", "append", "workbench", "timers", "ledger")
    }
)


def load_service(name: str) -> ClusteredService:
    """Make the service that `package.module:Class`, or one of SHORT_NAMES, names.

    Raises `UsageError` that says which part is wrong: no such form, module missing or broken, class missing, no
    ClusteredService, or a constructor that fails or wants arguments.
    """
    module_name, separator, class_name = SHORT_NAMES.get(name, name).partition(":")
    if not separator or not module_name or not class_name:
        short = ", ".join(SHORT_NAMES)
        raise UsageError(f"service {name!r} is neither package.module:Class nor one of {short}")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UsageError(f"service {name!r}: there is no module {error.name!r} on the Python path") from error
    except Exception as error:
        raise UsageError(f"service {name!r}: importing {module_name} failed: {_text(error)}") from error
    service_class = getattr(module, class_name, None)
    if service_class is None:
        raise UsageError(f"service {name!r}: module {module_name} has no class {class_name!r}")
    if not isinstance(service_class, type) or not issubclass(service_class, ClusteredService):
        raise UsageError(f"service {name!r}: {class_name} is not a subclass of ClusteredService")
    try:
        service = service_class()
    except Exception as error:
        raise UsageError(f"service {name!r}: {class_name}() failed: {_text(error)}") from error
    assert isinstance(service, ClusteredService), service
    return service


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
