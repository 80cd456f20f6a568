"""The search on histories of others: those that Porcupine is tested with have the verdicts that its tests expect."""

import json
import re
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.search import linearizable_by_search
from upheaval.checkers.history.illegal_prefix import illegal_prefix
from upheaval.checkers.history.models.sequential import KeyModel
from upheaval.checkers.history.models.table import REGISTER
from upheaval.checkers.history.search import KeySearch, Prunings, parts, search_keys
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.records import Function, Operation, Outcome

DATA = Path(__file__).resolve().parents[2] / "data" / "porcupine"
VERDICTS = dict(line.split("\t") for line in (DATA / "verdicts.tsv").read_text().splitlines())
REGISTERS = sorted(name for name in VERDICTS if name.startswith("jepsen/"))
# The 20,000 configurations that do not decide them without prunings.
LIMIT = 20_000
HARD = ["jepsen/etcd_002.log", "jepsen/etcd_007.log", "jepsen/etcd_057.log", "jepsen/etcd_099.log"]
# With fifty clients, all of them valid: the verdict alone takes as long as all of etcd's.
LONG = ["kv/c50-ok.txt"]
_LINE = re.compile(r"INFO\s+jepsen\.util - (\d+)\s+:(\w+)\s+:(\w+)\s+(.+)")


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    with tarfile.open(DATA / "histories.tar.gz") as archive:
        members = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        return {name: stream.read().decode() for name, stream in members.items() if stream is not None}


def test_every_history_has_a_verdict(texts: dict[str, str]) -> None:
    assert texts.keys() == VERDICTS.keys()
    assert list(VERDICTS.values()).count("invalid") == 82
    assert list(VERDICTS.values()).count("valid") == 26


@pytest.mark.parametrize("name", REGISTERS)
def test_the_search_decides_a_register_of_etcd(texts: dict[str, str], name: str) -> None:
    found = searched(texts[name], Prunings())
    assert found.verdict.text == VERDICTS[name]
    if found.verdict is Verdict.INVALID:
        prefix = illegal_prefix(found, REGISTER, LIMIT)
        assert prefix.is_shortest
        last = next(each for each in prefix.shown if each.operation is prefix.last)
        (possible, *_) = last.possible
        history = [each for each in found.operations if each.invoke_ns <= (prefix.last.complete_ns or 0)]
        assert verdict_with(history, prefix.last, REGISTER) is Verdict.INVALID
        assert verdict_with(history, replace(prefix.last, result=possible), REGISTER) is Verdict.VALID


@pytest.mark.parametrize("name", HARD)
def test_without_prunings_it_gives_up_on_some(texts: dict[str, str], name: str) -> None:
    assert searched(texts[name], Prunings(*[False] * 5)).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("name", REGISTERS)
def test_the_command_judges_the_same_history_as_edn(
    texts: dict[str, str], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In EDN a compare-and-set that failed says nothing; what is invalid here does not rest on those."""
    path = tmp_path / "history.edn"
    lines = (f"{{:process {p}, :type :{kind}, :f :{f}, :value {value}}}\n" for p, kind, f, value in events(texts[name]))
    path.write_text("".join(lines))
    assert main(["check", str(path), "--model", "cas-register", "--limit", str(LIMIT), "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["verdict"] == VERDICTS[name]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.nightly] if name in LONG else [])
        for name in VERDICTS
        if name.startswith("kv/")
    ],
)
def test_the_command_judges_a_key_value_store(
    texts: dict[str, str], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.edn"
    path.write_text(texts[name])
    main(["check", str(path), "--model", "kv", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == VERDICTS[name]
    if VERDICTS[name] == "invalid":
        prefix = found["illegal_prefix"]
        assert prefix["shortest"]
        wrong = [each for each in prefix["operations"] if each["possible"]]
        assert wrong
        assert all(each["result"] not in each["possible"] for each in wrong)
    if name == "kv/c50-bad.txt":
        # One key is illegal after a few steps, and another one is hard.
        assert sum(each["configurations"] for each in found["keys"]) < 100_000
    if name == "kv/c01-bad.txt":
        (last,) = [each for each in wrong if each["result"]]
        assert (prefix["key"], last["result"], last["possible"]) == ("7", "x 0 0 y", ["x 0 0 yx 0 3 y"])


def searched(text: str, prunings: Prunings) -> KeySearch:
    (found,) = search_keys(parts(operations(text), REGISTER), REGISTER, LIMIT, prunings=prunings)
    return found


def verdict_with(history: list[Operation], last: Operation, model: KeyModel) -> Verdict:
    """Of the history up to that answer; later answers are not known yet."""
    end = last.complete_ns or 0
    cut = [
        each
        if (each.complete_ns or 0) <= end
        else replace(each, outcome=Outcome.UNKNOWN, complete_ns=None, result=None)
        for each in history
        if each.id != last.id
    ]
    return linearizable_by_search([*cut, last], model=model, limit=LIMIT).verdict


def events(text: str) -> Iterator[tuple[int, str, str, str]]:
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        assert match is not None, line
        process, kind, f, value = match.groups()
        yield int(process), kind, f, value


def operations(text: str) -> list[Operation]:
    """As Porcupine reads them: the time of an event is its number, a failed compare-and-set found another value."""
    pending: dict[int, int] = {}
    found: dict[int, Operation] = {}
    for number, (process, kind, f, text_value) in enumerate(events(text)):
        value = None if text_value in ("nil", ":timed-out") else json.loads(text_value.replace(" ", ","))
        if kind == "invoke":
            pending[process] = number
            found[number] = Operation(
                number, process, Function(f), "", value, number, None, Outcome.UNKNOWN, None, None
            )
        elif kind == "ok" or (kind, f) == ("fail", "cas"):
            invoked = pending.pop(process)
            result = {"read": value, "write": None, "cas": kind == "ok"}[f]
            found[invoked] = replace(found[invoked], outcome=Outcome.OK, complete_ns=number, result=result)
    return list(found.values())
