"""`python tools/mutants.py`: mutation testing of the node: small mistakes, one at a time, and what notices them.

`--seed S --count N` draws the mutants: conditions negated, comparisons shifted, statements dropped, constants changed.
Each is applied to a copy of the node and judged by the budget of `mutant_judge.py`, by those of its parts that execute
the line; what survives that, by the unit tests of its package. One line of JSON for each is added to `--out`; those
that are there already are not tried again, so that the command goes on where it was ended.
"""

import argparse
import ast
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
NODE: Final = ROOT / "node"
PACKAGES: Final = ("cluster", "archive", "service", "files", "backup", "standby")
MEMORY_MAX: Final = 3 << 30
SHIFTED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
NO_BEHAVIOUR: Final = ("annotation", "returns", "decorator_list", "bases")
"""Fields of statements that mutants leave alone: types and what classes and functions are made of."""
NEGATED: Final = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
DROPPED: Final = (ast.Expr, ast.Assign, ast.AugAssign, ast.Delete, ast.Raise, ast.Return, ast.Continue, ast.Break)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file of the node; `start` and `end` are offsets of the bytes that `after` replaces."""

    file: str
    line: int
    statement: int
    """The first line of the statement, which is what a trace tells of; 0 of one that is run by the import."""
    kind: str
    start: int
    end: int
    before: str
    after: str

    @property
    def key(self) -> tuple[object, ...]:
        return (self.file, self.start, self.before, self.after)

    def is_executed_in(self, lines: Mapping[str, Sequence[int]]) -> bool:
        return self.statement == 0 or self.statement in lines.get(self.file, ())

    def apply(self, copy: Path) -> None:
        source = (NODE / self.file).read_bytes()
        target = copy / self.file
        target.write_bytes(source[: self.start] + self.after.encode() + source[self.end :])
        # Python matches compiled code to its source by second and length: too coarse for changes like these.
        for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*"):
            compiled.unlink()


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All that there are of one file, in the order of the source."""
    source = path.read_bytes()
    starts = [0]
    for text in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(text))
    for line, node, kind, after in _changes(ast.parse(source).body):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        before = " ".join(source[start:end].decode().split())
        yield Mutant(str(path.relative_to(NODE)), node.lineno, line, kind, start, end, before, after)


Change = tuple[int, ast.stmt | ast.expr, str, str]


def _changes(body: Iterable[ast.stmt], function: str = "") -> Iterator[Change]:
    for statement in body:
        line = statement.lineno if function else 0
        if _can_be_dropped(statement, function):
            yield line, statement, "statement dropped", "pass"
        yield from ((line, *change) for change in _expression_changes(statement))
        outer = statement.name if isinstance(statement, ast.FunctionDef) else function
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            for inner in getattr(statement, name, ()):
                yield from _changes([inner] if isinstance(inner, ast.stmt) else inner.body, outer)


def _can_be_dropped(statement: ast.stmt, function: str) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant()):
            return False
        case ast.Assign(targets=targets):  # without a name that is used later, nothing would run at all
            return function != "__init__" and all(isinstance(each, ast.Attribute | ast.Subscript) for each in targets)
        case ast.Return(value=value):
            return value is None
    return isinstance(statement, DROPPED)


def _expression_changes(statement: ast.stmt) -> Iterator[tuple[ast.expr, str, str]]:
    """Of the expressions of a statement itself, without those of the statements in it, and without types."""
    if isinstance(statement, ast.Assert | ast.Import | ast.ImportFrom):
        return
    todo: list[ast.AST] = [
        child
        for name, child in _children(statement)
        if isinstance(child, ast.expr | ast.arguments) and name not in NO_BEHAVIOUR
    ]
    if isinstance(statement, ast.If | ast.While):
        yield from _negated(statement.test)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.JoinedStr | ast.arg):
            continue  # nodes in an f-string have no places of their own; an argument has nothing but its type
        yield from _changed(node)
        todo += [child for _, child in _children(node)]


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for name, value in ast.iter_fields(node):
        yield from (
            (name, each) for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.AST)
        )


def _negated(test: ast.expr) -> Iterator[tuple[ast.expr, str, str]]:
    """Where a shifted comparison is not the same."""
    if not (isinstance(test, ast.Compare) and all(isinstance(op, NEGATED) for op in test.ops)):
        yield test, "condition negated", f"(not ({ast.unparse(test)}))"


def _changed(node: ast.AST) -> Iterator[tuple[ast.expr, str, str]]:
    match node:
        case ast.IfExp(test=test):
            yield from _negated(test)
        case ast.comprehension(ifs=tests):
            for test in tests:
                yield from _negated(test)
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield node, "condition negated", f"({ast.unparse(ast.BoolOp(other, values))})"
        case ast.Compare(left=left, ops=ops, comparators=right):
            for at, compared in enumerate(ops):
                shifted = ast.Compare(left, [*ops[:at], SHIFTED[type(compared)](), *ops[at + 1 :]], right)
                yield node, "comparison shifted", f"({ast.unparse(shifted)})"
        case ast.Constant(value=bool(value)):
            yield node, "constant changed", str(not value)
        case ast.Constant(value=int(value)):
            yield node, "constant changed", str(value + 1)


def draw(seed: int, count: int) -> list[Mutant]:
    """The first of the shuffled mutants of all packages: a larger count has those of a smaller one."""
    found = list(_all_mutants())
    Random(f"mutants/{seed}").shuffle(found)
    return found[:count]


@cache
def _all_mutants() -> tuple[Mutant, ...]:
    files = sorted(file for package in PACKAGES for file in (NODE / "upheaval_node" / package).rglob("*.py"))
    return tuple(mutant for file in files for mutant in mutants_of(file))


# --- what notices them ---


class Judge:
    """A copy of the node, and the budget that runs on it in a process of its own."""

    def __init__(self, copy: Path, *, tests: bool) -> None:
        shutil.copytree(NODE / "upheaval_node", copy / "upheaval_node", ignore=shutil.ignore_patterns("_compiled"))
        self._copy = copy
        self._tests = tests
        self.parts: list[dict[str, Any]] = []
        """Of the budget: what each executes of the node as it is, and the processor seconds that it takes for that."""

    def measure(self, file: Path) -> None:
        """Run the budget on the node as it is, unless `file` has that. Ends the command when it is not valid."""
        sources = b"".join(path.read_bytes() for path in sorted((NODE / "upheaval_node").rglob("*.py")))
        of = hashlib.sha256(sources).hexdigest()
        known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        if known.get("of") == of:
            self.parts = known["parts"]
            return
        self.parts = self._run([], None, "--trace")
        wrong = [part["by"] for part in self.parts if part["by"]]
        if wrong or not self.parts:
            raise SystemExit(f"without a mutant the budget is not valid: {wrong or 'nothing was said'}")
        file.write_text(json.dumps({"of": of, "parts": self.parts}), encoding="utf-8")

    def judge(self, mutant: Mutant) -> dict[str, Any]:
        reaching = [part for part in self.parts if mutant.is_executed_in(part["lines"])]
        begin = time.monotonic()
        mutant.apply(self._copy)
        result, by = ("survived", "") if reaching else ("not reached", "")
        if reaching:
            limit_s = 20 + int(2 * sum(part["seconds"] for part in reaching))
            names = [part["part"] for part in reaching]
            results = self._run(names, limit_s)
            by = next((f"{each['part']}: {each['by']}" for each in results if each["by"]), "")
            if not by and len(results) < len(names):
                by = f"{names[len(results)]}: did not end"
        if not by and self._tests:
            by = self._try_tests(mutant)
        shutil.copy2(NODE / mutant.file, self._copy / mutant.file)
        line = {**asdict(mutant), "result": "killed" if by else result, "reached": bool(reaching), "by": by}
        return {**line, "seconds": round(time.monotonic() - begin, 1)}

    def _run(self, names: Sequence[str], limit_s: int | None, *options: str) -> list[dict[str, Any]]:
        command = [sys.executable, str(ROOT / "tools" / "mutant_judge.py"), *options, *names]
        done = self._start(command, limit_s, f"{self._copy}{os.pathsep}{ROOT / 'tests'}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def _try_tests(self, mutant: Mutant) -> str:
        """The unit test of the package that fails, if there is one."""
        folder = ROOT / "tests" / "unit" / mutant.file.split("/")[1]
        path = " ".join([str(self._copy), "harness", "chaos", "tests", "tools"])
        options = ["-q", "-x", "-p", "no:cacheprovider", "-o", f"pythonpath={path}", "--tb=no"]
        done = self._start([sys.executable, "-m", "pytest", *options, str(folder)], 600, str(self._copy))
        failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        if failed:
            return failed[0]
        return "" if done.returncode == 0 else f"{folder.relative_to(ROOT)}: ended with {done.returncode}"

    def _start(self, command: list[str], limit_s: int | None, path: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
        return subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=partial(_limit, limit_s),  # a mutant may do something for ever, or keep all of it
            check=False,
        )


def _limit(seconds: int | None) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    if seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


# --- what is said of them ---


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Shares by package, and a row for each mutant that nothing noticed."""
    results = ("killed", "survived", "not reached")
    rows: list[tuple[str, ...]] = [("package", "mutants", *results)]
    for package in (*PACKAGES, ""):
        counts = Counter(line["result"] for line in lines if not package or line["file"].split("/")[1] == package)
        rows.append((package or "all", str(counts.total()), *(str(counts[result]) for result in results)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for line in lines:
        if line["result"] != "killed":
            change = f"{line['before']}  ->  {line['after']}"
            text.append(f"{line['result']}: {line['file']}:{line['line']}: {line['kind']}: {change}")
    return "\n".join(text)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="what is drawn (default: 1)")
    parser.add_argument("--count", type=int, default=20, help="how many (default: 20)")
    parser.add_argument("--out", type=Path, default=Path("runs/mutants.jsonl"), help="a line of JSON for each mutant")
    parser.add_argument("--no-tests", action="store_true", help="judge by the budget alone, without unit tests")
    parser.add_argument("--json", action="store_true", help="print the lines in the place of the table")
    options = parser.parse_args(arguments)
    drawn = draw(options.seed, options.count)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    earlier = (
        [json.loads(line) for line in options.out.read_text(encoding="utf-8").splitlines()]
        if options.out.exists()
        else []
    )
    known = {tuple(line[name] for name in ("file", "start", "before", "after")): line for line in earlier}
    missing = [mutant for mutant in drawn if mutant.key not in known]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        judge = Judge(Path(folder), tests=not options.no_tests)
        if missing:
            judge.measure(options.out.with_suffix(".parts.json"))
        for number, mutant in enumerate(missing, len(drawn) - len(missing) + 1):
            line = known[mutant.key] = judge.judge(mutant)
            with options.out.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
            said = f"{line['result']} {line['by']}"[:100]
            print(f"{number} of {len(drawn)}: {mutant.file}:{mutant.line}: {said}", file=sys.stderr, flush=True)
    lines = [known[mutant.key] for mutant in drawn]
    print(json.dumps(lines, indent=2) if options.json else table(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
