"""Porcupine as a second judge, which shares no code with ours: of exported histories it says what we say."""

import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from support.lone_histories import register_history
from support.search import linearizable_by_search
from upheaval.checkers.history.foreign import read_foreign
from upheaval.checkers.history.models.table import KEY_MODELS
from upheaval.records import Function, Json, Operation, Outcome
from upheaval.records.exported import FORMATS

JUDGE = Path(__file__).parents[2] / "support" / "porcupine_judge"
SEEDS = 500


def registers(seed: int) -> list[Operation]:
    """Two keys; in half of the histories one read has another result."""
    random = Random(seed)
    found: list[Operation] = []
    for key in "ab":
        for each in register_history(random.randrange(10**6), 50, is_valid=True, lost=0.1):
            found.append(replace(each, id=len(found), key=key, process=each.process % 5))
    return one_changed(random, found, Function.READ, [None, 0, 1, 2, 3, 4])


def lists(seed: int) -> list[Operation]:
    """Three clients of one list, whose requests overlap; some appends have no answer, and half of these happened."""
    random = Random(seed)
    held: list[Json] = []
    found = []
    for number in range(25):
        f = random.choice([Function.APPEND, Function.LIST])
        value = random.randrange(3) if f is Function.APPEND else None
        is_lost = random.random() < 0.1
        if f is Function.APPEND and not (is_lost and random.random() < 0.5):
            held.append(value)
        result: Json = list(held) if f is Function.LIST else None
        begin, end = number * 10 - random.randrange(25), number * 10 + random.randrange(25)
        answered = (None, Outcome.UNKNOWN, None) if is_lost else (end + 30, Outcome.OK, result)
        found.append(Operation(number, number % 3, f, "k", value, begin + 30, *answered))
    return one_changed(random, found, Function.LIST, [[], [0], [1, 2], [2, 0, 1]])


def one_changed(random: Random, history: list[Operation], f: Function, results: list[Json]) -> list[Operation]:
    answered = [each for each in history if each.f is f and each.outcome is Outcome.OK]
    if random.random() < 0.5 or not answered:
        return history
    wrong = random.choice(answered)
    return [replace(each, result=random.choice(results)) if each is wrong else each for each in history]


def judged_by_porcupine(paths: list[Path]) -> list[str]:
    done = subprocess.run(
        ["go", "run", ".", *map(str, paths)], cwd=JUDGE, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("notation", "kind", "model"), [("knossos", "register", "cas-register"), ("porcupine", "list", "kv")]
)
def test_porcupine_says_the_same(tmp_path: Path, notation: str, kind: str, model: str) -> None:
    ours = []
    paths = []
    for seed in range(SEEDS):
        path = tmp_path / f"{seed}.edn"
        path.write_text(
            "\n".join(FORMATS[notation](registers(seed) if kind == "register" else lists(seed), kind).lines)
        )
        paths.append(path)
        history = read_foreign(path, KEY_MODELS[model])
        ours.append(linearizable_by_search(history.operations, model=KEY_MODELS[model]).verdict.text)
    theirs = judged_by_porcupine(paths)
    agreed = Counter((one, other) for one, other in zip(ours, theirs, strict=True))
    assert sum(agreed[verdict, verdict] for verdict in ("valid", "invalid")) == SEEDS, agreed
    assert min(agreed["valid", "valid"], agreed["invalid", "invalid"]) > SEEDS // 10, agreed
