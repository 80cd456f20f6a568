"""No circle of files: who imports whom can be put in an order. pyproject.toml says what packages may import."""

import ast
from graphlib import CycleError, TopologicalSorter

import pytest

from architecture.source_tree import PACKAGES, SourceFile, python_files


def module_of(path: str) -> str:
    """The dotted name of a file below one of the folders of packages."""
    return path.split("/", 1)[1].removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def names_imported(file: SourceFile) -> set[str]:
    """Dotted names of everything that it imports, at whatever moment: modules, and what is in them."""
    names: set[str] = set()
    for node in file.nodes:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def imports() -> dict[str, set[str]]:
    """The modules that each module imports, as far as they are ours."""
    modules = {module_of(file.path): file for file in python_files(*PACKAGES)}
    graph: dict[str, set[str]] = {}
    for module, file in modules.items():
        names = names_imported(file)
        found = {name if name in modules else name.rpartition(".")[0] for name in names}
        graph[module] = {name for name in found if name in modules and name != module}
    return graph


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = imports()
    assert "upheaval_chaos.record" in graph["upheaval_chaos.driver"]
    TopologicalSorter(graph).prepare()


def test_a_circle_is_found() -> None:
    graph = imports()
    graph["upheaval_chaos.record"] = {"upheaval_chaos.driver"}
    with pytest.raises(CycleError):
        TopologicalSorter(graph).prepare()
