"""The project's own source files, as the architecture tests see them."""

import ast
import subprocess
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("node", "harness", "chaos", "pipeline")


@dataclass(frozen=True)
class SourceFile:
    path: str
    text: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All of the tree, walked once for all tests."""
        return tuple(ast.walk(self.tree))


@cache
def tracked_files() -> tuple[str, ...]:
    """Every file that git tracks, or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(sorted(line for line in listed.stdout.splitlines() if (ROOT / line).is_file()))


def python_files(*folders: str) -> tuple[SourceFile, ...]:
    """Parsed Python files below the folders; generated message modules are left out."""
    below = tuple(f"{folder}/" for folder in folders)
    files = (_parsed(path) for path in tracked_files() if path.endswith(".py") and path.startswith(below))
    return tuple(file for file in files if file is not None)


@cache
def _parsed(path: str) -> SourceFile | None:
    text = (ROOT / path).read_text(encoding="utf-8")
    return None if text.startswith('"""Messages of schema') else SourceFile(path, text, ast.parse(text))


def functions(file: SourceFile) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [n for n in file.nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def imported_modules(file: SourceFile) -> set[str]:
    """Top names of every absolute import."""
    names: set[str] = set()
    for node in file.nodes:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return names


def attribute_calls(file: SourceFile) -> list[tuple[str, int]]:
    """`module.name` of every call of an attribute of a plain name, with its line."""
    return [
        (f"{node.func.value.id}.{node.func.attr}", node.lineno)
        for node in file.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
    ]
