"""Mutants of the node: what is drawn, and that each is another program."""

import ast
from pathlib import Path

from mutants import NODE, Mutant, draw, mutants_of, table

FILE = NODE / "upheaval_node" / "cluster" / "members.py"


def applied(mutant: Mutant, folder: Path) -> str:
    (folder / mutant.file).parent.mkdir(parents=True, exist_ok=True)
    mutant.apply(folder)
    return (folder / mutant.file).read_text()


def test_a_seed_draws_the_same_ones_and_a_larger_count_more_of_them() -> None:
    assert draw(7, 40)[:20] == draw(7, 20)
    assert draw(7, 20) != draw(8, 20)


def test_all_kinds_are_drawn_from_all_packages() -> None:
    drawn = draw(1, 400)
    assert {mutant.kind for mutant in drawn} == {
        "condition negated",
        "comparison shifted",
        "statement dropped",
        "constant changed",
    }
    packages = {mutant.file.split("/")[1] for mutant in drawn}
    assert packages == {"cluster", "archive", "service", "files", "backup", "standby"}


def test_each_is_another_program_that_can_be_compiled(tmp_path: Path) -> None:
    before = ast.dump(ast.parse(FILE.read_text()))
    for mutant in mutants_of(FILE):
        assert ast.dump(ast.parse(applied(mutant, tmp_path))) != before, mutant


def test_a_shifted_comparison_is_in_its_place(tmp_path: Path) -> None:
    wanted = "m.log_position >= position"
    (mutant,) = [each for each in mutants_of(FILE) if each.before == wanted]
    assert (mutant.kind, mutant.after) == ("comparison shifted", "(m.log_position > position)")
    source = FILE.read_text()
    assert source.count(wanted) == 1
    assert applied(mutant, tmp_path) == source.replace(wanted, mutant.after)


def test_a_mutant_is_reached_where_its_statement_runs_or_by_the_import() -> None:
    (shifted,) = [each for each in mutants_of(FILE) if each.before == "m.log_position >= position"]
    assert shifted.is_executed_in({shifted.file: [1, shifted.statement]})
    assert not shifted.is_executed_in({shifted.file: [1], "another.py": [shifted.statement]})
    first, *_ = [each for each in mutants_of(FILE) if each.before == "False"]
    assert "is_ballot_sent: bool = False" in FILE.read_text().splitlines()[first.line - 1]
    assert first.is_executed_in({})


def test_compiled_code_of_the_file_before_is_not_run(tmp_path: Path) -> None:
    mutant = next(mutants_of(FILE))
    compiled = tmp_path / Path(mutant.file).parent / "__pycache__" / f"{FILE.stem}.cpython-311.pyc"
    compiled.parent.mkdir(parents=True)
    compiled.touch()
    mutant.apply(tmp_path)
    assert not compiled.exists()


def test_the_table_has_shares_and_what_nothing_noticed() -> None:
    line = {"file": "upheaval_node/files/cnc.py", "line": 3, "kind": "constant changed", "before": "1", "after": "2"}
    text = table([{**line, "result": result} for result in ("killed", "survived", "not reached")])
    rows = [row.split() for row in text.splitlines()]
    assert ["files", "3", "1", "1", "1"] in rows
    assert ["all", "3", "1", "1", "1"] in rows
    assert "survived: upheaval_node/files/cnc.py:3: constant changed: 1  ->  2" in text
    assert "killed:" not in text
