"""Whether a run judges the promises that its user wrote: one that no model includes would be kept silently."""

from collections.abc import Collection

from upheaval.errors import UsageError
from upheaval.model import PROMISES


def require_judged(modules: Collection[str], judged: Collection[str]) -> None:
    """Raises `UsageError` for a promise in one of these modules, unless the module is among those that are judged.

    Modules are compared by their last names: a test has another one by its path than by its folder.
    """
    last_names = {_last(module) for module in judged}
    for sentence, function in PROMISES.items():
        if function.__module__ in modules and _last(function.__module__) not in last_names:
            where = "name that module as the model (--model, upheaval_model), or move the promise to the model's"
            raise UsageError(f"promise {sentence!r} in {function.__module__} judges no run: {where}")


def module_of(name: str) -> str:
    """The module of `module` or `module:Class`."""
    return name.partition(":")[0]


def _last(module: str) -> str:
    return module.rpartition(".")[2]
