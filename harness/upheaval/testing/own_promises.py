"""Promises that judge no run: all without a model, and with one those outside of the modules of model and service."""

from collections.abc import Mapping
from typing import Any

import pytest

from upheaval.errors import UsageError
from upheaval.model import PROMISES


def require_judged_promises(item: pytest.Item, options: Mapping[str, Any]) -> None:
    """Raises `UsageError` for a promise in the file of a test, or in the module of its service, if the models of the
    tests in that file do not include it.

    `options` are those of the test's cluster, whose service is loaded.
    """
    service = options.get("service", "")
    if ":" not in service:
        return
    suspects = {getattr(getattr(item, "module", None), "__name__", ""), _module(service)} - {""}
    judged = _judged_modules(item, options)
    for sentence, function in PROMISES.items():
        if function.__module__ in suspects and _last(function.__module__) not in judged:
            where = "set upheaval_model to that module, or move the promise to the one that it names"
            raise UsageError(f"promise {sentence!r} in {function.__module__} judges no run: {where}")


def _judged_modules(item: pytest.Item, options: Mapping[str, Any]) -> set[str]:
    """The last names of the modules that have judged promises, for any test in the file of this one."""
    of_file = (other for other in item.session.items if other.path == item.path)
    marked = [mark.kwargs for other in of_file for mark in other.iter_markers("upheaval")]
    of_ini = {name: item.config.getini(f"upheaval_{name}") for name in ("model", "service")}
    named = [of_ini, options, *marked]
    models = {str(one["model"]) for one in named if one.get("model")}
    services = {str(one["service"]) for one in named if one.get("service")}
    return {_last(_module(name)) for name in (models and models | services)}


def _module(name: str) -> str:
    return name.partition(":")[0]


def _last(module: str) -> str:
    return module.rpartition(".")[2]
