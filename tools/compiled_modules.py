"""Which modules are compiled, and why the others of the same packages are not.

The packages are data; what a compiler cannot take is read from the sources, so that the list follows them. Knows the
limits of mypyc and nothing of how it is run.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
HOT: Final = (
    "node/upheaval_node/archive/*.py",
    "node/upheaval_node/bell.py",
    "node/upheaval_node/client/*.py",
    "node/upheaval_node/cluster/*.py",
    "node/upheaval_node/counters.py",
    "node/upheaval_node/files/*.py",
    "node/upheaval_node/media/*.py",
    "node/upheaval_node/ports.py",
    "node/upheaval_node/protocol/*.py",
    "node/upheaval_node/protocol_trace.py",
    "node/upheaval_node/runtime/clock.py",
    "node/upheaval_node/runtime/connection.py",
    "node/upheaval_node/runtime/disk.py",
    "node/upheaval_node/runtime/duty_cycle.py",
    "node/upheaval_node/runtime/loop.py",
    "node/upheaval_node/runtime/readiness.py",
    "node/upheaval_node/runtime/sync_thread.py",
    "node/upheaval_node/runtime/tls_connection.py",
    "node/upheaval_node/runtime/tracer.py",
    "node/upheaval_node/service/*.py",
    "node/upheaval_node/service/services/*.py",
    "node/upheaval_node/settings.py",
    "node/upheaval_node/snapshot_durations.py",
    "node/upheaval_node/state_machine.py",
    "node/upheaval_node/steps.py",
    "node/upheaval_node/trace_lines.py",
    "node/upheaval_node/turns.py",
    "node/upheaval_node/types.py",
    "harness/upheaval/execution/invariants.py",
    "harness/upheaval/checkers/protocol/ballots.py",
    "harness/upheaval/checkers/evidence/binding.py",
    "harness/upheaval/checkers/protocol/commits.py",
    "harness/upheaval/checkers/protocol/protocol.py",
    "harness/upheaval/checkers/evidence/protocol_events.py",
    "harness/upheaval/checkers/evidence/recordings.py",
    "harness/upheaval/checkers/evidence/spans.py",
    "harness/upheaval/checkers/evidence/trace_facts.py",
    "harness/upheaval/records/jsonfields.py",
    "harness/upheaval/records/service_messages.py",
    "harness/upheaval/records/trace_events.py",
    "harness/upheaval/runtimes/simulated/disk.py",
    "harness/upheaval/runtimes/simulated/links.py",
    "harness/upheaval/runtimes/simulated/network.py",
    "harness/upheaval/runtimes/simulated/process.py",
    "harness/upheaval/runtimes/simulated/trace.py",
    "harness/upheaval/runtimes/simulated/world.py",
    "harness/upheaval/workload/load.py",
)
"""What a message, a simulated second, or a run that is judged goes through."""
HEIRS: Final = ("node", "harness", "chaos", "pipeline", "examples", "tests", "bench")
"""Where classes are written that derive from those of the node."""
BY_HAND: Final[dict[str, str]] = {}
"""Modules that cannot be compiled for what the sources do not show."""
DERIVABLE: Final = "mypyc_attr(allow_interpreted_subclasses=True)"
"""The decorator of a compiled class that interpreted ones may derive from."""
_NO_LAYOUT: Final = frozenset({"ABC", "Generic", "IntEnum", "NamedTuple", "Protocol", "StrEnum", "object"})


@dataclass(frozen=True, slots=True)
class Module:
    """A source file below the root."""

    name: str
    path: Path
    tree: ast.Module

    def classes(self) -> Iterator[ast.ClassDef]:
        """All of them, wherever they are."""
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))


def name_of(path: Path) -> str:
    """The dotted name of a file below one of the folders that are on the path."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts[1:]).removesuffix(".__init__")


@cache
def _read(path: Path) -> Module:
    return Module(name_of(path), path, ast.parse(path.read_text(encoding="utf-8")))


@cache
def hot_modules() -> tuple[Module, ...]:
    """The modules of the hot packages, compiled or not."""
    return tuple(_read(path) for pattern in HOT for path in sorted(ROOT.glob(pattern)))


@cache
def reasons() -> dict[str, str]:
    """Why each module of the hot packages that is not compiled is not."""
    found = {module.name: why for module in hot_modules() if (why := _own_reason(module))}
    others = [path for folder in HEIRS for path in sorted((ROOT / folder).rglob("*.py"))]
    hot = {module.name for module in hot_modules()}
    while True:
        interpreted = [path for path in others if name_of(path) not in hot or name_of(path) in found]
        more = {
            base: f"{name_of(path)}, which is not compiled, derives from {name}"
            for path in interpreted
            for base, name in _bases(path)
            if base in hot and base not in found and not _is_derivable(base, name)
        }
        if not more:
            return found
        found |= more


def _is_derivable(module: str, name: str) -> bool:
    """Whether a class of a hot module says that interpreted ones may derive from it."""
    classes = next(each for each in hot_modules() if each.name == module).classes()
    decorators = [ast.unparse(each) for node in classes if node.name == name for each in node.decorator_list]
    return DERIVABLE in decorators


def compiled_modules() -> list[Module]:
    """The modules to compile."""
    left = reasons()
    return [module for module in hot_modules() if module.name not in left]


def _own_reason(module: Module) -> str:
    """What in the module itself the compiler cannot take."""
    if module.path.name == "__init__.py":
        return "a compiled package hides the modules in it that are not"
    if module.name.startswith("upheaval_node.protocol.") and module.name.endswith("_messages"):
        return "classes that derive from an interpreted one gain nothing"
    if "Unpack[" in ast.unparse(module.tree):
        return "the compiler fails on Unpack of keyword arguments"
    for node in module.classes():
        why = _reason_of(node)
        if why:
            return f"{node.name} {why}"
    return BY_HAND.get(module.name, "")


def _reason_of(node: ast.ClassDef) -> str:
    decorators = {ast.unparse(each).partition("(")[0] for each in node.decorator_list}
    bases = {ast.unparse(each).partition("[")[0].rpartition(".")[2] for each in node.bases}
    if "runtime_checkable" in decorators:
        return "is a protocol that isinstance asks about"
    if len(bases - _NO_LAYOUT) > 1:
        return "derives from several classes"
    if "dataclass" in decorators and "Generic" in bases:
        return "is a generic dataclass"
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    if "dataclass" in decorators and any("ClassVar" in ast.unparse(each.annotation) for each in fields):
        return "is a dataclass with a variable of the class"
    return ""


def _bases(path: Path) -> list[tuple[str, str]]:
    """The modules and names of what the classes of a file derive from, as far as it imports them."""
    return [base for bases in _bases_of(path).values() for base in bases]


@cache
def _bases_of(path: Path) -> dict[str, list[tuple[str, str]]]:
    """The same for each of its classes."""
    if re.search(r"^\s*class \w+\(", path.read_text(encoding="utf-8"), re.MULTILINE) is None:
        return {}
    module = _read(path)
    places: dict[str, tuple[str, str]] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                places[alias.asname or alias.name] = (node.module, alias.name)
    found: dict[str, list[tuple[str, str]]] = {}
    for node in module.classes():
        for text in (ast.unparse(base).partition("[")[0] for base in node.bases):
            first, _, rest = text.partition(".")
            if first in places:
                package, name = places[first]
                found.setdefault(node.name, []).append((f"{package}.{name}", rest) if rest else (package, name))
    return found
