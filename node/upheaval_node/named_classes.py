"""Makes an object of the class that a configuration names as `package.module:Class`."""

import importlib

from upheaval_node.errors import UsageError


def make_named(kind: str, name: str, alternatives: str = "") -> object:
    """One of the class that `find_named` finds. Raises as that, and for a constructor that fails or wants arguments."""
    found = find_named(kind, name, alternatives)
    try:
        return found()
    except Exception as error:
        raise UsageError(f"{kind} {name!r}: {found.__name__}() failed: {_text(error)}") from error


def find_named(kind: str, name: str, alternatives: str = "") -> type:
    """`kind` and `alternatives` (other forms that a name may have) are for messages.

    Raises `UsageError` that says which part is wrong: no such form, module missing or broken, class missing.
    """
    module_name, separator, class_name = name.partition(":")
    if not separator or not module_name or not class_name:
        if alternatives:
            raise UsageError(f"{kind} {name!r} is neither package.module:Class nor {alternatives}")
        raise UsageError(f"{kind} {name!r} is not of the form package.module:Class")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UsageError(f"{kind} {name!r}: no module {error.name!r} on the Python path") from error
    except Exception as error:
        raise UsageError(f"{kind} {name!r}: importing {module_name} failed: {_text(error)}") from error
    found = getattr(module, class_name, None)
    if found is None:
        raise UsageError(f"{kind} {name!r}: module {module_name} has no class {class_name!r}")
    if not isinstance(found, type):
        raise UsageError(f"{kind} {name!r}: {class_name} is not a class")
    return found


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
