"""Makes an object of the class that a configuration names as `package.module:Class`."""

import importlib
import pkgutil
import sys
from collections.abc import Iterable, Iterator

from upheaval_node.errors import UsageError
from upheaval_node.suggestions import did_you_mean


def make_named(kind: str, name: str, alternatives: str = "", known: Iterable[str] = ()) -> object:
    """An object of the class that `find_named` finds. Raises as that, and for a constructor that fails."""
    named = find_named(kind, name, alternatives, known)
    try:
        return named()
    except Exception as error:
        raise UsageError(f"{kind} {name!r}: {named.__name__}() failed: {_text(error)}") from error


def find_named(kind: str, name: str, alternatives: str = "", known: Iterable[str] = ()) -> type:
    """`kind`, `alternatives` (other forms that a name may have) and `known` (other names) are for messages.

    Raises `UsageError` that says which part is wrong: no such form, module missing or broken, class missing.
    """
    module_name, separator, class_name = name.partition(":")
    if not separator or not module_name or not class_name:
        if alternatives:
            hint = did_you_mean(name, known)
            raise UsageError(f"{kind} {name!r} is neither package.module:Class nor {alternatives}{hint}")
        raise UsageError(f"{kind} {name!r} is not of the form package.module:Class")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        hint = did_you_mean(error.name or "", _modules_beside(error.name or ""))
        raise UsageError(f"{kind} {name!r}: no module {error.name!r} on the Python path{hint}") from error
    except Exception as error:
        raise UsageError(f"{kind} {name!r}: importing {module_name} failed: {_text(error)}") from error
    named = getattr(module, class_name, None)
    if named is None:
        hint = did_you_mean(
            class_name, (attribute for attribute, value in vars(module).items() if isinstance(value, type))
        )
        raise UsageError(f"{kind} {name!r}: module {module_name} has no class {class_name!r}{hint}")
    if not isinstance(named, type):
        raise UsageError(f"{kind} {name!r}: {class_name} is not a class")
    return named


def _modules_beside(name: str) -> Iterator[str]:
    """The modules of the package in which a module was looked for, by their whole names."""
    package, _, _ = name.rpartition(".")
    places = getattr(sys.modules.get(package), "__path__", None) if package else sys.path
    prefix = f"{package}." if package else ""
    for module in pkgutil.iter_modules(places):
        yield prefix + module.name


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
