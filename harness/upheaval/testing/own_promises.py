"""Promises in the file of a test that judge no run: all without a model, and with one those outside of the modules of
model and service.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from upheaval.judged_promises import module_of, require_judged


def require_judged_promises(item: pytest.Item, options: Mapping[str, Any]) -> None:
    """Raises `UsageError` for a promise in the file of a test, if the models of the tests in that file do not include
    it. `options` are those of the test's cluster.
    """
    require_judged({getattr(getattr(item, "module", None), "__name__", "")}, _judged_modules(item, options))


def _judged_modules(item: pytest.Item, options: Mapping[str, Any]) -> set[str]:
    """The modules that have judged promises, for any test in the file of this one."""
    of_file = (other for other in item.session.items if other.path == item.path)
    marked = [mark.kwargs for other in of_file for mark in other.iter_markers("upheaval")]
    of_ini = {name: item.config.getini(f"upheaval_{name}") for name in ("model", "service")}
    named = [of_ini, options, *marked]
    models = {str(one["model"]) for one in named if one.get("model")}
    services = {str(one["service"]) for one in named if one.get("service")}
    return {module_of(name) for name in (models and models | services)}
