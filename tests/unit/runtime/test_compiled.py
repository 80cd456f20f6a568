"""Which form of the hot modules runs: extension modules only for the very sources that they were made from."""

import ast
import dataclasses
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

import pytest

import build_compiled
import compiled_modules
from upheaval_chaos.errors import UsageError
from upheaval_chaos.planted.catalogue import bug_named
from upheaval_node import compiled
from upheaval_node.compiled import INDEX, VARIABLE, CompiledModules, Form, digest, read_index

PACKAGE = "two_forms"
LEAF, SUFFIX = "_json", EXTENSION_SUFFIXES[0]
"""The name of an extension module of Python itself, used in place of one of ours."""
SOURCE = "FORM = 'source'\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of one module and a folder with the extension module of that name, in step with each other."""
    package = tmp_path / "sources" / PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / f"{LEAF}.py").write_text(SOURCE)
    (package / "constants.py").write_text("LIMIT = 3\n")
    extensions = tmp_path / "_compiled"
    (extensions / PACKAGE).mkdir(parents=True)
    (extensions / PACKAGE / f"{LEAF}{SUFFIX}").write_bytes(extension().read_bytes())
    write_index(extensions)
    monkeypatch.syspath_prepend(package.parent)
    yield extensions
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def extension() -> Path:
    spec = importlib.util.find_spec(LEAF)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)


def write_index(folder: Path, **changes: object) -> None:
    index = {
        "suffix": SUFFIX,
        "library": "two_forms__library",
        "modules": {f"{PACKAGE}.{LEAF}": digest(SOURCE.encode())},
        "read": {f"{PACKAGE}.constants": digest(b"LIMIT = 3\n"), "no_such_package.module": "0"},
    }
    (folder / INDEX).write_text(json.dumps({**index, **changes}))


def sources(folder: Path) -> Path:
    return folder.parent / "sources" / PACKAGE


def test_the_extension_module_of_these_sources_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finder = CompiledModules(folder)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    module = importlib.import_module(f"{PACKAGE}.{LEAF}")
    assert isinstance(module.__spec__ and module.__spec__.loader, ExtensionFileLoader)
    assert not hasattr(module, "FORM")
    assert importlib.import_module(f"{PACKAGE}.constants").LIMIT == 3
    assert str(finder.form) == "compiled, 1 modules"


def test_sources_run_when_one_was_imported_before(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module(f"{PACKAGE}.{LEAF}")
    finder = CompiledModules(folder)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    assert finder.form == Form(0, f"{PACKAGE}.{LEAF} was imported before that was decided")


def test_every_service_of_the_node_says_that_interpreted_ones_may_derive_from_it() -> None:
    services = {
        (module.name, node.name): [ast.unparse(each) for each in node.decorator_list]
        for module in compiled_modules.compiled_modules()
        for node in module.classes()
        if {"ClusteredService", "OperationService"} & {ast.unparse(base) for base in node.bases}
    }
    assert len(services) >= 8
    assert [name for name, said in services.items() if compiled_modules.DERIVABLE not in said] == []


MAY_BE_COMPILED = {module.name for module in compiled_modules.compiled_modules()}
ROOMS = sorted({name.rpartition(".")[0] for name in MAY_BE_COMPILED if name.startswith("upheaval.")})


@pytest.mark.parametrize("room", ROOMS)
def test_the_harness_imports_no_module_that_may_be_compiled_before_the_form_can_be_asked_for(room: str) -> None:
    module = next(name for name in sorted(MAY_BE_COMPILED) if name.rpartition(".")[0] == room)
    program = f"import sys, {module}; print(*sys.modules)"
    imported = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    first = next(name for name in imported if name in MAY_BE_COMPILED)
    assert imported.index("upheaval_node.compiled") < imported.index(first)


@pytest.mark.parametrize("changed", [LEAF, "constants"])
def test_a_source_that_was_changed_runs_and_says_why(
    changed: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (sources(folder) / f"{changed}.py").open("a") as stream:
        stream.write("MORE = 1\n")
    finder = CompiledModules(folder)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    assert importlib.import_module(f"{PACKAGE}.{LEAF}").FORM == "source"
    assert finder.form == Form(0, f"{PACKAGE}.{changed} has changed since it was compiled")


def test_a_source_that_is_gone_has_changed(folder: Path) -> None:
    (sources(folder) / "constants.py").unlink()
    assert CompiledModules(folder).form.why_pure == f"{PACKAGE}.constants has changed since it was compiled"


def test_a_package_of_which_nothing_is_there_does_not_run(folder: Path) -> None:
    (sources(folder) / "constants.py").unlink()
    (sources(folder) / f"{LEAF}.py").unlink()
    assert CompiledModules(folder).form == Form(1)


def test_modules_for_another_python_do_not_run(folder: Path) -> None:
    write_index(folder, suffix=".cpython-27-other.so")
    finder = CompiledModules(folder)
    assert finder.find_spec(f"{PACKAGE}.{LEAF}") is None
    assert finder.form == Form(0, "compiled for another Python (.cpython-27-other.so)")


def test_without_a_folder_the_sources_run(tmp_path: Path) -> None:
    assert CompiledModules(tmp_path / "none").form == Form(0, "nothing is compiled")


def test_what_is_asked_for_first_counts(folder: Path) -> None:
    asked = CompiledModules(folder)
    assert asked.use_pure("a bug is planted")
    assert asked.find_spec(f"{PACKAGE}.{LEAF}") is None
    assert asked.form == Form(0, "a bug is planted")
    running = CompiledModules(folder)
    assert running.find_spec(f"{PACKAGE}.{LEAF}") is not None
    assert not running.use_pure("a bug is planted")
    assert running.form == Form(1)


def test_no_bug_is_planted_in_compiled_modules(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_chosen", CompiledModules(folder))
    with pytest.raises(UsageError, match=f"bugs are planted in pure Python: set {VARIABLE}=1"):
        bug_named("vote-not-persisted").plant([])


@pytest.mark.parametrize(("value", "is_pure"), [("1", True), ("yes", True), ("0", False), ("", False)])
def test_the_environment_chooses(value: str, is_pure: bool) -> None:
    program = "from upheaval_node.compiled import form; print(form().why_pure)"
    environment = {**os.environ, VARIABLE: value, "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True).strip()
    assert (said == "UPHEAVAL_PURE is set") is is_pure


def test_every_hot_module_is_compiled_or_has_a_reason() -> None:
    names = {module.name for module in compiled_modules.compiled_modules()}
    reasons = compiled_modules.reasons()
    assert names | reasons.keys() == {module.name for module in compiled_modules.hot_modules()}
    assert not names & reasons.keys()
    assert {"upheaval_node.media.driver", "upheaval.runtimes.simulated.network"} <= names
    assert reasons["upheaval_node.service.api"].endswith("derives from ClusteredService")
    assert reasons["upheaval_node.cluster.election"] == "Election derives from several classes"


def test_every_pattern_of_hot_modules_finds_some() -> None:
    assert [pattern for pattern in compiled_modules.HOT if not list(compiled_modules.ROOT.glob(pattern))] == []


def test_what_is_compiled_reads_constants_of_what_is_not() -> None:
    index = build_compiled.make_index(compiled_modules.compiled_modules())
    assert "upheaval_node.protocol.cluster_messages" in index["read"]
    assert not index["read"].keys() & index["modules"].keys()


def test_a_package_in_an_archive_has_no_index(tmp_path: Path) -> None:
    """Spark's workers get ours like that."""
    (tmp_path / "packages.zip").write_bytes(b"PK")
    assert read_index(tmp_path / "packages.zip" / "upheaval_node" / "_compiled") is None


def test_an_index_is_read_as_it_was_written(folder: Path) -> None:
    index = read_index(folder)
    assert index is not None
    assert index.modules == {f"{PACKAGE}.{LEAF}": digest(SOURCE.encode())}


def test_nothing_is_decoded_by_the_types_of_a_compiled_class() -> None:
    """mypyc leaves nothing of what the fields of a dataclass are."""
    names = {module.name for module in compiled_modules.compiled_modules()}
    decoded = [
        kind
        for folder in ("harness", "pipeline")
        for path in sorted((compiled_modules.ROOT / folder).rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and (name := decoded_name(call))
        if dataclasses.is_dataclass(
            kind := getattr(importlib.import_module(compiled_modules.name_of(path)), name, None)
        )
    ]
    assert len(decoded) > 13
    within = {each for kind in decoded for each in kinds_within(kind)}
    assert {kind.__name__ for kind in within} >= {"FaultRecord", "Proof", "FinalPosition"}
    assert [kind.__name__ for kind in within if kind.__module__ in names] == []


def decoded_name(call: ast.Call) -> str:
    """Of the class that is made of JSON: by `jsonfields`, or of all that an object has."""
    if ast.unparse(call.func) in ("jsonfields.decode", "jsonfields.read_file"):
        return call.args[0].id if isinstance(call.args[0], ast.Name) else ""
    has_all = any(keyword.arg is None for keyword in call.keywords)
    return call.func.id if has_all and isinstance(call.func, ast.Name) else ""


def kinds_within(kind: Any) -> Iterator[type]:
    """A dataclass, and those that its fields are made of."""
    if dataclasses.is_dataclass(kind):
        yield cast(type, kind)
        kind = tuple(get_type_hints(kind).values())
    for part in kind if isinstance(kind, tuple) else get_args(kind):
        yield from kinds_within(part)


def test_no_generator_reads_what_it_has_set_to_none() -> None:
    """Others may set it between its turns, and mypyc takes it for None: the extension module raises TypeError."""
    read = [
        f"{module.name}:{node.lineno} {ast.unparse(node)}"
        for module in compiled_modules.compiled_modules()
        for function in ast.walk(module.tree)
        if isinstance(function, ast.FunctionDef)
        and any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(function))
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        for line in set_to_none(function, ast.unparse(node))
        if line < node.lineno
    ]
    assert read == []


def set_to_none(function: ast.FunctionDef, name: str) -> list[int]:
    """The lines on which it sets the attribute to None."""
    return [
        node.lineno
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value is None
        for target in node.targets
        if ast.unparse(target) == name
    ]
