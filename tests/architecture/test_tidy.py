"""House rules that a machine can check. Rules about imports are in pyproject.toml (import-linter)."""

import ast
import re
from dataclasses import dataclass
from functools import cache

from architecture.source_tree import (
    PACKAGES,
    ROOT,
    SourceFile,
    attribute_calls,
    functions,
    imported_modules,
    length,
    python_files,
    tracked_files,
)

LONGEST_FUNCTION = 70
LONGEST_MODULE = 600
CORE = (
    "node/upheaval_node/protocol",
    "node/upheaval_node/files",
    "node/upheaval_node/media",
    "node/upheaval_node/archive",
    "node/upheaval_node/cluster",
    "node/upheaval_node/backup",
    "node/upheaval_node/service",
    "node/upheaval_node/client",
)
IO_MODULES = {
    "asyncio",
    "fcntl",
    "logging",
    "mmap",
    "os",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "uuid",
}
PYTEST_CHECKS = ("assert_outcomes", "fnmatch_lines")
SHELLS = {"node/upheaval_node/client/driver.py", "node/upheaval_node/client/asyncio_driver.py"}
"""Modules inside core folders that are thin shells around a core, and so may do I/O."""


def test_no_function_outgrows_a_screen() -> None:
    too_long = [
        f"{file.path}:{f.lineno} {f.name} has {length(f)} lines"
        for file in python_files(*PACKAGES, "tests", "tools", "bench", "examples")
        for f in functions(file)
        if length(f) > LONGEST_FUNCTION
    ]
    assert too_long == []


def test_no_module_outgrows_one_job() -> None:
    too_long = [
        f"{file.path} has {file.text.count(chr(10))} lines"
        for file in python_files(*PACKAGES, "tests", "tools", "bench", "examples")
        if file.text.count("\n") > LONGEST_MODULE
    ]
    assert too_long == []


def test_every_module_says_its_job() -> None:
    silent = [
        file.path for file in python_files(*PACKAGES, "tests", "tools", "bench") if not ast.get_docstring(file.tree)
    ]
    assert silent == []


def core_files() -> list[SourceFile]:
    return [file for file in python_files(*CORE) if file.path not in SHELLS]


def test_the_core_imports_no_input_or_output() -> None:
    leaks = [f"{file.path}: {name}" for file in core_files() for name in imported_modules(file) & IO_MODULES]
    assert leaks == []


def test_the_core_draws_no_randomness_of_its_own() -> None:
    leaks = [
        f"{file.path}:{node.lineno}"
        for file in core_files()
        for node in file.nodes
        if (isinstance(node, ast.Import) and any(alias.name in ("random", "secrets") for alias in node.names))
        or (
            isinstance(node, ast.ImportFrom)
            and (node.module == "secrets" or (node.module == "random" and [a.name for a in node.names] != ["Random"]))
        )
    ]
    unseeded = [
        f"{file.path}:{node.lineno} Random() without a seed"
        for file in core_files()
        for node in file.nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("Random", "SystemRandom")
        and not node.args
    ]
    assert leaks + unseeded == []


def test_only_one_function_moves_an_election() -> None:
    movers = {
        f"{file.path}:{f.name}"
        for file in python_files("node/upheaval_node/cluster")
        if "/election" in file.path
        for f in functions(file)
        for node in ast.walk(f)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "self._states.enter"
    }
    assert movers == {"node/upheaval_node/cluster/election_base.py:_enter"}


def test_a_module_is_made_of_parts_and_inherits_nothing() -> None:
    bases = {
        node.name: [ast.unparse(base) for base in node.bases]
        for file in python_files("node/upheaval_node/cluster", "node/upheaval_node/standby")
        for node in file.nodes
        if isinstance(node, ast.ClassDef) and node.name in ("ConsensusModule", "StandbyModule")
    }
    assert bases == {"ConsensusModule": [], "StandbyModule": []}


def test_only_a_state_machine_writes_where_it_is() -> None:
    writers = {
        file.path
        for file in python_files("node/upheaval_node")
        for node in file.nodes
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and target.attr == "current"
    }
    assert writers == {"node/upheaval_node/state_machine.py"}


def test_the_simulated_runtime_subclasses_nothing_of_the_core() -> None:
    subclasses = []
    for file in python_files("harness/upheaval/runtimes/simulated"):
        core_names = {
            alias.asname or alias.name
            for node in file.nodes
            if isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith("upheaval_node.")
            and node.module not in ("upheaval_node.ports", "upheaval_node.errors")
            for alias in node.names
        }
        subclasses += [
            f"{file.path}:{node.lineno} {node.name}"
            for node in file.nodes
            if isinstance(node, ast.ClassDef)
            and any(isinstance(base, ast.Name) and base.id in core_names for base in node.bases)
        ]
    assert subclasses == []


def test_tests_wait_for_conditions_and_never_sleep() -> None:
    sleeps = [
        f"{file.path}:{line} {call}"
        for file in python_files("tests", "examples")
        for call, line in attribute_calls(file)
        if call.endswith(".sleep")
    ]
    assert sleeps == []


def test_tests_use_real_parts_and_run_always() -> None:
    banned = re.compile(r"unittest\.mock|MagicMock|\bmocker\b|mark\.skip|pytest\.skip|importorskip|mark\.xfail")
    found = [
        f"{file.path}: {match.group()}"
        for file in python_files("tests", "examples")
        if not file.path.startswith("tests/architecture/")
        for match in [banned.search(file.text)]
        if match
    ]
    assert found == []


@dataclass(frozen=True)
class FunctionChecks:
    """What matters of one function: whether it states something that may not hold, and the last names of its calls.

    An error that a real part in the tests' support raises, as a disk that is full does, states nothing.
    """

    name: str
    checks: bool
    calls: frozenset[str]


@cache
def checks_in(file: SourceFile) -> tuple[FunctionChecks, ...]:
    return tuple(checks_of(function) for function in functions(file))


def checks_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> FunctionChecks:
    checks, calls = False, set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Raise) and "AssertionError" in ast.unparse(node)):
            checks = True
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            calls.add(node.func.attr)
            is_of_pytest = isinstance(node.func.value, ast.Name) and node.func.value.id == "pytest"
            checks |= (is_of_pytest and node.func.attr in ("raises", "fail")) or node.func.attr in PYTEST_CHECKS
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            calls.add(node.func.id)
    return FunctionChecks(function.name, checks, frozenset(calls))


def checking_names(everything: list[FunctionChecks]) -> set[str]:
    """The functions that check something, themselves or by another one of these that they call."""
    found: set[str] = set()
    while True:
        more = {function.name for function in everything if function.checks or function.calls & found} - found
        if not more:
            return found
        found |= more


def test_every_test_checks_something() -> None:
    """In itself, or by a helper of its file, of a module beside it or of the tests' support."""
    files = python_files("tests", "examples")
    helper_files = [file for file in files if not file.path.rpartition("/")[2].startswith("test_")]
    empty = []
    for file in files:
        folders = ("tests/support/", file.path.rpartition("/")[0] + "/")
        near = [one for helper in helper_files if helper.path.startswith(folders) for one in checks_in(helper)]
        checking = checking_names([*checks_in(file), *near])
        empty += [
            f"{file.path}:{f.name}" for f in checks_in(file) if f.name.startswith("test") and f.name not in checking
        ]
    assert empty == []


def test_what_other_programs_print_is_read_in_one_way() -> None:
    """By `upheaval_chaos.programs`: as text of the caller's locale, a byte of it would end its reader."""
    own = re.compile(r"\btext=True|universal_newlines|subprocess\.(check_output|getoutput)|os\.popen")
    assert [f"{file.path}: {found}" for file in python_files(*PACKAGES) for found in own.findall(file.text)] == []


def test_temporary_folders_are_found_after_their_process_was_killed() -> None:
    """`upheaval clean` removes those of `owned_folder`. One with a `dir` is beside what takes its place."""
    others = [
        f"{file.path}:{node.lineno}"
        for file in python_files("harness", "chaos", "pipeline")
        for node in file.nodes
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in ("TemporaryDirectory", "mkdtemp")
        and all(keyword.arg != "dir" for keyword in node.keywords)
    ]
    assert others == []


def test_commands_read_typed_options() -> None:
    """Only `upheaval_chaos.options` reads the namespace of a parser. Locust's page gets one, which we do not read."""
    places = {"chaos/upheaval_chaos/options.py", "harness/upheaval/load/runner.py"}
    parsing = {"Namespace", "SimpleNamespace", "parse_args", "parse_intermixed_args"}
    readers = [
        f"{file.path}:{node.lineno}"
        for file in python_files("harness", "chaos", "pipeline")
        if file.path not in places
        for node in file.nodes
        if (isinstance(node, ast.Name) and node.id in parsing)
        or (isinstance(node, ast.Attribute) and node.attr in parsing)
    ]
    assert readers == []


def test_the_runtimes_are_listed_once() -> None:
    """In `upheaval.runtime_names`."""
    names = {"'simulated'", "'process'", "'docker'"}
    lists = [
        f"{file.path}:{node.lineno}"
        for file in python_files(*PACKAGES, "tools", "bench")
        for node in file.nodes
        if isinstance(node, ast.Tuple | ast.List | ast.Set)
        and len({ast.unparse(element) for element in node.elts} & names) > 1
    ]
    assert lists == []


def test_names_say_what_a_thing_is() -> None:
    """Not what happened to it."""
    vague = {"told", "said", "found", "each", "kept"}
    bound = [
        f"{file.path}:{node.lineno}"
        for file in python_files(*PACKAGES)
        for node in file.nodes
        if (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in vague)
        or (isinstance(node, ast.arg) and node.arg in vague)
        or (isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in vague)
    ]
    assert bound == []


def test_no_package_gives_a_name_to_two_things() -> None:
    """A name that a package imports hides its module of that name, or is hidden by it: mypyc takes the module."""
    paths = {file.path.removesuffix(".py") for file in python_files(*PACKAGES)}
    modules = paths | {path.removesuffix("/__init__") for path in paths}
    hidden = [
        f"{file.path}:{node.lineno} {alias.name}"
        for file in python_files(*PACKAGES)
        if file.path.endswith("/__init__.py")
        for node in file.nodes
        if isinstance(node, ast.ImportFrom)
        and node.module != file.path.split("/", 1)[1].removesuffix("/__init__.py").replace("/", ".")
        for alias in node.names
        if f"{file.path.removesuffix('/__init__.py')}/{alias.asname or alias.name}" in modules
    ]
    assert hidden == []


def test_nothing_unfinished_is_left() -> None:
    mark = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError")
    found = [
        f"{file.path}: {match.group()}"
        for file in python_files(*PACKAGES, "tools", "bench", "examples")
        for match in [mark.search(file.text)]
        if match
    ]
    assert found == []


def test_no_file_names_a_registry_or_a_place_of_one_machine() -> None:
    address = re.compile(
        r"https?://[^\s\"'<>)]*(pypi|pythonhosted|debian\.org|docker\.io|maven|npmjs|crates\.io|golang\.org)"
    )
    here = re.compile(re.escape(f"{ROOT}/"))
    found = []
    for path in tracked_files():
        if path.endswith((".png", ".webp", ".rec", ".dat")) or path.startswith("tests/architecture/"):
            continue
        text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
        found += [f"{path}: {m.group()}" for pattern in (address, here) for m in [pattern.search(text)] if m]
    assert found == []
