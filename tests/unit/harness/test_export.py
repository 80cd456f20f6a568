"""`upheaval export`: another judge reads the history that `verify` and `check` read."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, strategies as st

from support.examples import examples
from support.lone_histories import register_history
from support.search import linearizable_by_search
from upheaval.checkers.history.foreign import read_foreign
from upheaval.checkers.history.models.table import KEY_MODELS
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.records import Function, Json, Manifest, Operation, Outcome, RunFolder
from upheaval.records.exported import FORMATS, knossos


def run_of(path: Path, operations: list[Operation]) -> Path:
    run = RunFolder(path)
    run.create(Manifest("run-1", "process", 3, "test", 0))
    with run.history_writer() as writer:
        for operation in operations:
            writer.add(operation)
    return path


def registers(seed: int, *, is_valid: bool, with_cas: bool) -> list[Operation]:
    """Two keys. Without compare-and-sets all of them are reads, which have their result by then."""
    found: list[Operation] = []
    for key in ("r 1", 'r"2;'):
        for each in register_history(seed, 60, is_valid=is_valid or key == "r 1", lost=0.1):
            operation = replace(each, key=key, id=len(found), process=each.process % 5)
            if with_cas or operation.f is not Function.CAS:
                found.append(operation)
    return found


def lists(seed: int, *, is_valid: bool) -> list[Operation]:
    """One copy of two lists, whose answers come a little after they were made."""
    random = Random(seed)
    held: dict[str, list[Json]] = {"a": [], "b": []}
    found = []
    for number in range(30):
        key = random.choice("ab")
        f = random.choice([Function.APPEND, Function.LIST])
        value: Json = random.choice([1, "1", "a;b", None, {"x": [True]}]) if f is Function.APPEND else None
        if f is Function.APPEND:
            held[key].append(value)
        result: Json = list(held[key]) if f is Function.LIST else None
        begin, end = number * 10 - random.randrange(8), number * 10 + random.randrange(8)
        found.append(Operation(number, number % 3, f, key, value, begin + 10, end + 10, Outcome.OK, result))
    if not is_valid:
        last = max(each.id for each in found if each.f is Function.LIST)
        found[last] = replace(found[last], result=[1.0])
    return found


def verdict_of(capsys: pytest.CaptureFixture[str], path: Path, model: str) -> str:
    capsys.readouterr()
    main(["check", str(path), "--model", model, "--json"])
    verdict: str = json.loads(capsys.readouterr().out)["verdict"]
    return verdict


@pytest.mark.parametrize("is_valid", [True, False])
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(4, 15))])
@pytest.mark.parametrize(
    ("notation", "kind", "models"),
    [
        ("knossos", "register", ("register", "cas-register")),
        ("porcupine", "register", ("register", "kv")),
        ("knossos", "list", ("list", "list")),
        ("porcupine", "list", ("list", "kv")),
    ],
)
def test_what_was_exported_has_the_same_verdict(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    notation: str,
    kind: str,
    models: tuple[str, str],
    seed: int,
    is_valid: bool,
) -> None:
    if kind == "list":
        operations = lists(seed, is_valid=is_valid)
    else:
        operations = registers(seed, is_valid=is_valid, with_cas=notation == "knossos")
    run = run_of(tmp_path / "run", operations)
    out = tmp_path / "history"
    assert main(["export", str(run), "--format", notation, "--kind", kind, "-o", str(out)]) == 0
    original = verdict_of(capsys, run / "history.jsonl", models[0])
    assert verdict_of(capsys, out, models[1]) == original
    if kind == "list" or notation == "knossos":
        assert original == ("valid" if is_valid else "invalid")


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    found = []
    for number in range(draw(st.integers(1, 6))):
        f = draw(st.sampled_from([Function.READ, Function.WRITE, Function.CAS]))
        small = st.sampled_from([None, 0, 1, True])
        value: Json = None if f is Function.READ else draw(small)
        result: Json = draw(small) if f is Function.READ else None
        if f is Function.CAS:
            value, result = [value, draw(small)], draw(st.booleans())
        outcome = draw(st.sampled_from([Outcome.OK, Outcome.OK, Outcome.OK, Outcome.UNKNOWN, Outcome.FAIL]))
        begin = draw(st.integers(0, 9))
        end = begin + draw(st.integers(0, 5))
        answered = (end, outcome, result) if outcome is Outcome.OK else (None, outcome, None)
        key = draw(st.sampled_from(["a", "b"]))
        found.append(Operation(number, draw(st.integers(0, 1)), f, key, value, begin, *answered))
    return found


@examples(200)
@given(histories())
def test_knossos_is_given_all_but_compare_and_sets_that_answered_false(history: list[Operation]) -> None:
    def is_refused(operation: Operation) -> bool:
        return operation.f is Function.CAS and operation.result is False

    model = KEY_MODELS["register"]
    known = [replace(each, outcome=Outcome.FAIL) if is_refused(each) else each for each in history]
    exported = knossos(history, "register")
    assert bool(exported.notes) == any(map(is_refused, history))
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".edn") as file:
        file.write("\n".join(exported.lines))
        file.flush()
        read = read_foreign(Path(file.name), model)
    assert read.reading.operations == len(history)
    assert read.reading.failed == sum(each.outcome is Outcome.FAIL for each in known)
    expected = linearizable_by_search(known, model=model).verdict
    assert linearizable_by_search(read.operations, model=model).verdict is expected


def test_a_client_without_an_answer_goes_on_as_another_process() -> None:
    operations = [
        Operation(1, 0, Function.WRITE, "k", 1, 10, None, Outcome.UNKNOWN),
        Operation(2, 0, Function.READ, "k", None, 20, 30, Outcome.OK, 1),
    ]
    assert knossos(operations, "register").lines == (
        '{:process 0, :type :invoke, :f :write, :value ["k" 1], :time 10}',
        '{:process 1, :type :invoke, :f :read, :value ["k" nil], :time 20}',
        '{:process 1, :type :ok, :f :read, :value ["k" 1], :time 30}',
        '{:process 0, :type :info, :f :write, :value ["k" 1], :time 30}',
    )
    assert FORMATS["porcupine"](operations, "register").lines == (
        '{:process 0, :type :invoke, :f :put, :key "k", :value "1;"}',
        '{:process 1, :type :invoke, :f :get, :key "k", :value nil}',
        '{:process 1, :type :ok, :f :get, :key "k", :value "1;"}',
    )


def test_what_is_left_out_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(tmp_path / "run", registers(1, is_valid=True, with_cas=True) + lists(1, is_valid=True)[:0])
    assert main(["export", str(run), "--format", "knossos", "-o", str(tmp_path / "a.edn")]) == 0
    assert "compare-and-sets that answered false are :fail, which says nothing" in capsys.readouterr().out
    assert main(["export", str(run), "--format", "porcupine"]) == 2
    refusal = capsys.readouterr().err
    assert "has no operation on a register to write: " in refusal
    assert "with compare-and-sets are left out" in refusal
    assert main(["export", str(run), "--format", "knossos"]) == 0
    out, err = capsys.readouterr()
    assert out == (tmp_path / "a.edn").read_text()
    assert err.startswith(f"{len(registers(1, is_valid=True, with_cas=True))} operations in ")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--format", "elle"], "invalid choice: 'elle': use one of knossos, porcupine"),
        (["--format", "knossos", "--kind", "echo"], "invalid choice: 'echo': use one of register, list"),
    ],
)
def test_a_wrong_option_is_one_line(options: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["export", "run", *options])
    assert reason in capsys.readouterr().err


def test_what_is_no_run_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(tmp_path), "--format", "knossos"]) == 2
    assert "is not a run folder" in capsys.readouterr().err


def test_a_simulated_run_is_exported_and_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    assert main(["campaign", "--seeds", "3..3", "--dir", str(runs)]) == 0
    (run,) = {each.parent for each in runs.rglob("history.jsonl")}
    for kind, model in (("register", "cas-register"), ("list", "list")):
        out = tmp_path / f"{kind}.edn"
        assert main(["export", str(run), "--format", "knossos", "--kind", kind, "-o", str(out)]) == 0
        assert verdict_of(capsys, out, model) == Verdict.VALID.text
