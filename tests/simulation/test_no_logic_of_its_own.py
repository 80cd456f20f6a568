"""The simulated runtime runs the core as it is: it derives nothing from it and replaces nothing in it."""

import ast
import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

import upheaval.runtimes.simulated as simulated

MODULES = [importlib.import_module(f"{simulated.__name__}.{m.name}") for m in pkgutil.iter_modules(simulated.__path__)]


def test_no_class_derives_from_a_class_of_the_core() -> None:
    classes = [
        each
        for module in MODULES
        for each in vars(module).values()
        if inspect.isclass(each) and each.__module__ == module.__name__
    ]
    assert len(classes) > 10
    derived = [
        f"{each.__module__}.{each.__name__} derives from {base.__module__}.{base.__name__}"
        for each in classes
        for base in each.__mro__[1:]
        if base.__module__.startswith("upheaval_node")
    ]
    assert derived == []


def core_names(module: ModuleType) -> set[str]:
    return {
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", getattr(value, "__name__", "")).startswith("upheaval_node")
    }


@pytest.mark.pure
def test_nothing_of_the_core_is_assigned_to() -> None:
    patched = [
        f"{module.__name__}:{node.lineno}"
        for module in MODULES
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id in core_names(module)
    ]
    assert patched == []
