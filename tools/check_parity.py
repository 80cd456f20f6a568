"""Shows that the tests of the parity table can fail: inverts the last check of each and runs it.

python tools/check_parity.py --rows 7:30      30 rows drawn with seed 7; status 1 when an inverted test does not fail
python tools/check_parity.py --rows all       every row that is shown
python tools/check_parity.py --rows CT-22     this row

What is inverted is the last statement of a test function that checks something: an `assert`, a `with pytest.raises`,
a script of an election, or, where there is none of these, a wait for a condition. A test that still passes never came
to its check, or checks nothing. No file is changed: functions are compiled anew in the process that runs them.
"""

import argparse
import ast
import inspect
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from types import FunctionType
from typing import Any, Final

import pytest

import parity

SCRIPT_CHECKS: Final = {"sent": "unsent", "unsent": "sent"}
WAITS: Final = ("until", "until_true", "wait_until")
NOT_INVERTED: Final = "no check to invert"


# --- what an inverted function calls ---


def inverted_script(text: str) -> str:
    """The text of an election with its last check the other way round."""
    lines = text.splitlines()
    for number in range(len(lines) - 1, -1, -1):
        words = lines[number].split()
        if not words or words[0] not in ("is", "error", *SCRIPT_CHECKS):
            continue
        verb = words[0]
        if verb in SCRIPT_CHECKS:
            lines[number] = lines[number].replace(verb, SCRIPT_CHECKS[verb], 1)
        else:
            lines[number] = f"{verb} INVERTED"
        return "\n".join(lines)
    return text


@contextmanager
def inverted_raises(expected: type[BaseException], *_: object, **__: object) -> Iterator[None]:
    """Fails when the block raises what it should."""
    try:
        yield
    except expected as error:
        raise AssertionError(f"raised {error!r}") from error


HELPERS: Final = {"inverted_script": inverted_script, "inverted_raises": inverted_raises}


# --- inverting ---


def _is_raises(node: ast.AST) -> bool:
    if not isinstance(node, ast.With) or not isinstance(node.items[0].context_expr, ast.Call):
        return False
    return ast.unparse(node.items[0].context_expr.func) == "pytest.raises"


def _called(node: ast.AST) -> str:
    """The last name of what a call calls."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """All nodes of the function without those of functions in it."""
    stack: list[ast.AST] = list(reversed(function.body))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            stack += reversed(list(ast.iter_child_nodes(node)))


def _last(nodes: list[ast.AST], kind: Callable[[ast.AST], bool]) -> ast.AST | None:
    found = [node for node in nodes if kind(node)]
    return max(found, key=lambda node: (node.lineno, node.col_offset), default=None)  # type: ignore[attr-defined]


class _Replace(ast.NodeTransformer):
    """Puts statements where one node was."""

    def __init__(self, old: ast.AST, new: ast.AST | list[ast.stmt]) -> None:
        self._old = old
        self._new = new

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._old else self.generic_visit(node)


def _call(name: str, arguments: list[ast.expr]) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), arguments, [])


def invert(function: ast.FunctionDef) -> bool:
    """Invert the last check in place; False when there is none."""
    nodes = list(_own_nodes(function))
    check = _last(nodes, lambda node: isinstance(node, ast.Assert) or _is_raises(node))
    if check is None:
        check = _last(nodes, lambda node: _called(node) in ("say", "ElectionScript") and bool(node.args))  # type: ignore[attr-defined]
    if check is None:
        check = _last(nodes, lambda node: isinstance(node, ast.Expr) and _called(node.value) in WAITS)
    match check:
        case ast.Assert():
            check.test, check.msg = ast.UnaryOp(ast.Not(), check.test), None
        case ast.With(items=[ast.withitem(context_expr=ast.Call() as raises), *_]):
            raises.func = ast.Name("inverted_raises", ast.Load())
        case ast.Call():
            check.args[0] = _call("inverted_script", [check.args[0]])
        case ast.Expr(value=ast.Call(args=[condition, *_])):
            never = ast.Assert(ast.UnaryOp(ast.Not(), ast.Call(condition, [], [])), None)
            _Replace(check, [check, never]).visit(function)
        case _:
            return False
    return True


def inverted_function(original: FunctionType) -> FunctionType | None:
    """The function compiled anew, inverted; None when nothing in it can be."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(original)))
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    function.decorator_list = []
    if not invert(function):
        return None
    names = {**original.__globals__, **HELPERS}
    exec(compile(ast.fix_missing_locations(tree), f"<inverted {original.__name__}>", "exec"), names)
    inverted = names[original.__name__]
    assert isinstance(inverted, FunctionType)
    return inverted


class Inverter:
    """A pytest plugin that runs every collected test inverted, and keeps what came of it."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}

    def pytest_sessionstart(self) -> None:
        # Not sooner: pytest wants to import its plugins itself. An example that fails need not be the smallest one.
        from hypothesis import Phase, settings

        settings.register_profile("inverted", phases=[Phase.explicit, Phase.generate], database=None, deadline=None)
        settings.load_profile("inverted")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        done: dict[object, FunctionType | None] = {}
        for item in list(items):
            assert isinstance(item, pytest.Function)
            handle = getattr(item.obj, "hypothesis", None)
            original = item.obj if handle is None else handle.inner_test
            if item.function not in done:
                done[item.function] = inverted_function(original)
                if handle is not None and done[item.function] is not None:
                    handle.inner_test = done[item.function]
            inverted = done[item.function]
            if inverted is None:
                self.outcomes[item.nodeid] = NOT_INVERTED
                items.remove(item)
            elif handle is None:
                item.obj = inverted

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        if call.when == "call" or call.excinfo is not None:
            self.outcomes[item.nodeid] = "passed" if call.excinfo is None else call.excinfo.type.__name__
        return (yield)


FAILED: Final = ("AssertionError", "Failed", "ExceptionGroup", "FlakyFailure")
"""What a test that does not hold raises; any other error would not show that its check was reached."""


def run_here(nodes: list[str]) -> dict[str, str]:
    """Run the tests inverted in this process, which pytest changes."""
    inverter = Inverter()
    pytest.main(["-q", "-p", "no:cacheprovider", "--tb=no", *nodes], plugins=[inverter])
    return inverter.outcomes


def run_inverted(nodes: list[str]) -> dict[str, str]:
    """By node id what came of each: `passed`, the name of an error, or `NOT_INVERTED`."""
    command = [sys.executable, __file__, "--run", json.dumps(nodes)]
    done = subprocess.run(command, cwd=parity.ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the inverted tests did not run:\n{done.stdout}{done.stderr}")
    outcomes = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(outcomes, dict)
    return outcomes


def drawn_rows(text: str, shown: parity.Shown, inventory: dict[str, parity.Row]) -> list[str]:
    """`SEED:COUNT` rows among those that count, `all` that are shown, or one by its name."""
    seed, colon, count = text.partition(":")
    if text == "all":
        return sorted(shown)
    if not colon:
        return [text]
    rows = parity.counted(inventory, shown)
    if not (seed.isdecimal() and count.isdecimal()):
        raise SystemExit(f"check_parity: rows are given as SEED:COUNT, all, or one name, not {text!r}")
    return sorted(Random(int(seed)).sample(rows, min(int(count), len(rows))))


def check(rows: str, items: list[parity.Marked], say: Callable[[str], None] = print) -> int:
    """Status 0 when every test of the rows fails inverted. `items` are all collected tests."""
    shown = parity.shown_rows(items)
    chosen = drawn_rows(rows, shown, parity.read_inventory())
    nodes = list(dict.fromkeys(node for row in chosen for node in shown.get(row, [])))
    if not nodes:
        say(f"no tests of {rows}")
        return 2
    outcomes = run_inverted(nodes)
    wrong = {node: outcome for node, outcome in outcomes.items() if outcome not in FAILED}
    for node, outcome in wrong.items():
        say(f"{node}: inverted, and {outcome}")
    say(f"{len(chosen)} rows, {len(outcomes)} tests inverted, {len(outcomes) - len(wrong)} failed as they must")
    return int(bool(wrong) or not outcomes)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", default="1:5", metavar="SEED:COUNT|all|ROW", help="which rows (default 1:5)")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parsed = parser.parse_args(arguments)
    if parsed.run is not None:
        print("\n" + json.dumps(run_here(json.loads(parsed.run))))
        return 0
    return check(parsed.rows, parity.collect(), partial(print, flush=True))


if __name__ == "__main__":
    sys.exit(main())
