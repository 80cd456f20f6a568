"""The zoo: when a search is over, what counts as caught, and that it goes on where it was ended."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import zoo_table
from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.searches import DELIVERY
from upheaval.campaign.seed import SeedOutcome
from upheaval.campaign.swarm import draw_swarm
from upheaval.campaign.zoo import Search, Shrunk, row_of, run_search, write_progress
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.errors import UsageError
from upheaval_chaos.exit_status import CommandStatus
from upheaval_chaos.planted.catalogue import bug_named

BUG = bug_named("timer-fires-twice")
SEARCH = Search(BUG.name, 0, 1)
SEED_S = 2.0
SEED_MS = 2000


def outcome(seed: int, *fingerprints: Fingerprint) -> SeedOutcome:
    return SeedOutcome(draw_swarm(seed), fingerprints=list(fingerprints), processor_seconds=SEED_S)


def broken(promise: Promise) -> Fingerprint:
    return Fingerprint.of(Verdict.INVALID, promise, None)


def finds_at(found: int, met: Fingerprint, tried: list[int]) -> Callable[[int, str | None, Path], SeedOutcome]:
    """What a campaign shows: nothing but at one seed."""

    def try_one(seed: int, planted: str | None, scratch: Path) -> SeedOutcome:
        assert planted == BUG.name
        assert scratch.name.startswith(BUG.name)
        tried.append(seed)
        return outcome(seed, met) if seed == found else outcome(seed)

    return try_one


def test_a_search_ends_at_the_first_seed_that_breaks_a_promise_of_its_bug(tmp_path: Path) -> None:
    tried: list[int] = []
    over = run_search(SEARCH, tmp_path, tmp_path, 100.0, finds_at(4, broken(Promise.TIMERS_KEPT), tried))
    assert (over.is_caught, over.promise, over.seeds, over.processor_ms) == (True, "timers-kept", 4, 4 * SEED_MS)
    assert tried == [1, 2, 3, 4]


def test_the_invariants_of_the_simulation_find_every_bug(tmp_path: Path) -> None:
    over = run_search(SEARCH, tmp_path, tmp_path, 100.0, finds_at(1, broken(Promise.INVARIANTS), []))
    assert over.promise == "invariants"


@pytest.mark.parametrize(
    "met", [broken(Promise.MONEY_CONSERVED), Fingerprint.of(Verdict.UNKNOWN, Promise.TIMERS_KEPT, None)], ids=str
)
def test_another_promise_or_an_unknown_one_has_not_found_the_bug(met: Fingerprint, tmp_path: Path) -> None:
    over = run_search(SEARCH, tmp_path, tmp_path, 5 * SEED_S, finds_at(2, met, []))
    assert (over.is_caught, over.seeds, over.others) == (False, 5, (met.promise,))
    row = row_of(BUG, [over])
    assert (row.is_caught, row.seeds, row.processor_seconds, row.others) == (False, None, None, (met.promise,))


def test_a_search_that_was_ended_goes_on_and_one_that_is_over_runs_nothing(tmp_path: Path) -> None:
    tried: list[int] = []
    find = finds_at(5, broken(Promise.TIMERS_KEPT), tried)

    def end_at_3(seed: int, planted: str | None, scratch: Path) -> SeedOutcome:
        if seed == 3:
            raise KeyboardInterrupt
        return find(seed, planted, scratch)

    with pytest.raises(KeyboardInterrupt):
        run_search(SEARCH, tmp_path, tmp_path, 100.0, end_at_3)
    over = run_search(SEARCH, tmp_path, tmp_path, 100.0, find)
    assert (over.seeds, over.processor_ms) == (5, 5 * SEED_MS)
    assert run_search(SEARCH, tmp_path, tmp_path, 100.0, find) == over
    assert tried == [1, 2, 3, 4, 5]


def test_more_budget_goes_on_with_what_escaped(tmp_path: Path) -> None:
    tried: list[int] = []
    find = finds_at(4, broken(Promise.TIMERS_KEPT), tried)
    assert not run_search(SEARCH, tmp_path, tmp_path, 2 * SEED_S, find).is_caught
    assert run_search(SEARCH, tmp_path, tmp_path, 9 * SEED_S, find).is_caught
    assert tried == [1, 2, 3, 4]


def test_a_folder_of_other_seeds_is_refused(tmp_path: Path) -> None:
    run_search(SEARCH, tmp_path, tmp_path, SEED_S, finds_at(0, broken(Promise.TIMERS_KEPT), []))
    for other in (replace(SEARCH, first_seed=2), replace(SEARCH, search=DELIVERY)):
        with pytest.raises(UsageError, match="of another first seed, search or version"):
            run_search(other, tmp_path, tmp_path, SEED_S)


@pytest.mark.parametrize("digest", ["0" * 64, None], ids=["other", "none"])
@pytest.mark.parametrize("name", ["timer-fires-twice-0.json", "timer-fires-twice-shrunk.json"])
def test_what_other_code_caught_is_refused(
    name: str, digest: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may escape this code. Files of before have no digest."""
    write(tmp_path, replace(SEARCH, promise="timers-kept", seeds=2, processor_ms=3_500))
    write_progress(Shrunk(2, 3, 1, 0, 57, is_over=True), tmp_path / "timer-fires-twice-shrunk.json")
    command = ["zoo", BUG.name, "--out", str(tmp_path), "--shrink"]
    assert main(command) == CommandStatus.VALID
    fields = json.loads((tmp_path / name).read_text())
    del fields["digest"]
    (tmp_path / name).write_text(json.dumps(fields if digest is None else {**fields, "digest": digest}))
    capsys.readouterr()
    assert main(command) == CommandStatus.REFUSED
    assert f"{name} is of code that has changed since: give another --out" in capsys.readouterr().err


def test_a_search_by_deliveries_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, replace(SEARCH, promise="timers-kept", seeds=2, processor_ms=3_500, search=DELIVERY))
    assert main(["zoo", BUG.name, "--search", DELIVERY, "--out", str(tmp_path), "--json"]) == CommandStatus.VALID
    (row,) = json.loads(capsys.readouterr().out)
    assert "| 2 of `--search delivery` | 3.5 |" in zoo_table.table([row])


def test_a_search_without_its_bug_counts_as_longer_than_any(tmp_path: Path) -> None:
    catches = [replace(SEARCH, repeat=n, promise="timers-kept", seeds=n, processor_ms=n * SEED_MS) for n in (1, 5)]
    escaped = replace(SEARCH, seeds=3, processor_ms=3 * SEED_MS)
    row = row_of(BUG, [*catches, escaped])
    assert (row.is_caught, row.caught, row.searches, row.seeds) == (True, 2, 3, 5)
    row = row_of(BUG, [catches[0], escaped, escaped])
    assert (row.is_caught, row.caught, row.seeds) == (False, 1, None)


def test_the_command_says_what_escaped_and_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, replace(SEARCH, seeds=20, processor_ms=40_000, others=("run-ended",)))
    write(tmp_path, replace(SEARCH, bug="redirect-missing", promise="progress", seeds=2, processor_ms=3_500))
    command = ["zoo", BUG.name, "redirect-missing", "--budget", "40", "--out", str(tmp_path)]
    assert main(command) == CommandStatus.BROKEN
    printed = capsys.readouterr()
    assert "timer-fires-twice escaped; met run-ended" in printed.err
    assert "redirect-missing" in printed.out
    assert [line.split()[-5:] for line in printed.out.splitlines() if BUG.name in line] == [
        ["escaped", ">", "20", ">", "40.0"]
    ]
    assert main([*command, "--json"]) == CommandStatus.BROKEN
    rows = json.loads(capsys.readouterr().out)
    assert [(row["bug"], row["seeds"], row["promises"]) for row in rows] == [
        (BUG.name, None, []),
        ("redirect-missing", 2, ["progress"]),
    ]
    assert main(["zoo", "redirect-missing", "--out", str(tmp_path)]) == CommandStatus.VALID


def test_a_zoo_that_shrinks_goes_on_with_what_is_shrunk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, replace(SEARCH, bug="redirect-missing", promise="progress", seeds=2, processor_ms=3_500))
    shrunk = Shrunk(seed=2, members=3, faults=1, operations=0, runs=57, is_over=True, fresh=19, fresh_runs=20)
    write_progress(shrunk, tmp_path / "redirect-missing-shrunk.json")
    command = ["zoo", "redirect-missing", "--out", str(tmp_path), "--shrink"]
    assert main([*command, "--json"]) == CommandStatus.VALID
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["found_by"], row["shrunk"]) == (2, asdict(shrunk))
    assert main(command) == CommandStatus.VALID
    assert capsys.readouterr().out.split()[-8:] == ["3", "1", "0", ">", "57", "19", "of", "20"]


def test_newer_rows_take_the_place_of_earlier_ones_of_the_same_bugs() -> None:
    old = row_of(BUG, [replace(SEARCH, seeds=9, processor_ms=70_000)]).to_fields()
    new = row_of(BUG, [replace(SEARCH, promise="timers-kept", seeds=2, processor_ms=4_000)]).to_fields()
    other = row_of(bug_named("timer-fires-early"), [replace(SEARCH, bug="timer-fires-early")]).to_fields()
    assert zoo_table.joined([old, other], [new]) == [new, other]
    for row, fate in ((old, "nothing yet"), ({**old, "spent_seconds": 300.0}, "**escaped**")):
        seconds = row["spent_seconds"]
        assert f"| {fate} | > 9 | > {seconds} |  |  |" in zoo_table.table([row])
    shrunk = asdict(Shrunk(2, 3, 1, 40, 57, is_over=False, fresh=19, fresh_runs=20))
    assert "| 2 | 4.0 | 3 members, 1 fault, 40 operations | 19 of 20 |" in zoo_table.table([{**new, "shrunk": shrunk}])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "not the rows"),
        ('[{"bug": "x"}]', "not the rows"),
        ('[{"bug": "x", "promises": [], "seeds": null, "processor_seconds": 1.0}]', "not the rows"),
        ("[", "not JSON"),
        (None, "cannot read"),
    ],
)
def test_a_table_of_what_is_no_zoo_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, why: str
) -> None:
    file, results = tmp_path / "zoo.json", zoo_table.RESULTS.read_bytes()
    if text is not None:
        file.write_text(text)
    assert zoo_table.main([str(file)]) == CommandStatus.REFUSED
    (line,) = capsys.readouterr().err.splitlines()
    assert why in line
    assert zoo_table.RESULTS.read_bytes() == results


def test_broken_results_of_the_table_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(zoo_table, "RESULTS", tmp_path / "zoo.json")
    zoo_table.RESULTS.write_text("[")
    assert zoo_table.main([]) == CommandStatus.REFUSED
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{tmp_path / 'zoo.json'}: not JSON" in line


def test_an_unknown_bug_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", "no-such-bug"]) == CommandStatus.REFUSED
    assert "unknown planted bug 'no-such-bug'" in capsys.readouterr().err


def write(folder: Path, search: Search) -> None:
    write_progress(search, folder / f"{search.bug}-{search.repeat}.json")
