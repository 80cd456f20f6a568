"""Whether something that does not repeat fails alike: how many runs decide it, and what a try keeps of them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import upheaval_node
from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.seed import SeedOrigin
from upheaval.campaign.sequential import ERROR, OFTEN, RARELY, RUNS_MAX, fails_often
from upheaval.campaign.shrink import Budget
from upheaval.campaign.shrink_seed import shrink_seed
from upheaval.campaign.shrink_text import SmallestText, live_failures
from upheaval.campaign.text_tape import read_text_tape, tape_of_text
from upheaval.campaign.text_tries import TextOrigin, try_text_tape, until_decided
from upheaval.campaign.tries import Try, TryLog, code_fields, own_digest, search_fields
from upheaval.campaign.unstarted import UNSTARTED_MAX
from upheaval.cli.shrink import Left, fields_of
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.scenario import OwnCode

LOST = Fingerprint("invalid", "acknowledged-not-lost", role="LEADER")
OTHER = Fingerprint("invalid", "answered-once")


def of(shown: str) -> Callable[[], Try]:
    """Runs that fail alike (A), otherwise (o) or not at all (-), or whose cluster does not start (x)."""
    runs = iter(shown)

    def run() -> Try:
        match next(runs):
            case "A":
                return Try((OTHER, LOST), 1500, 40)
            case "o":
                return Try((OTHER,), 900, 7)
            case "x":
                raise EnvironmentFault("no room")
            case _:
                return Try(())

    return run


@pytest.mark.parametrize(
    ("shown", "runs", "alike", "is_often"),
    [
        ("AA", 2, 2, True),
        ("A-A", 3, 2, True),
        ("-A-AA", 5, 3, True),
        ("----", 4, 0, False),
        ("A-------", 8, 1, False),
        ("-A---A---A", RUNS_MAX, 3, True),
        ("-A---A----", RUNS_MAX, 2, False),
        ("xAxxA", 2, 2, True),
    ],
)
def test_runs_decide_between_often_and_rarely(shown: str, runs: int, alike: int, is_often: bool) -> None:
    tried = until_decided(of(shown), LOST)
    assert (tried.runs, tried.alike) == (runs, alike)
    assert (LOST in tried.fingerprints) is is_often
    assert (OTHER in tried.fingerprints) is (alike > 0)
    assert (tried.run_ms, tried.operations) == ((1500, 40) if alike else (0, 0))


def test_a_text_with_an_error_is_no_run(tmp_path: Path) -> None:
    tape = read_text_tape(tape_of_text("title No such fault\nwait leader other-than dead\n")).to_fields()
    tried = try_text_tape(TextOrigin("wrong", 1), LOST, tape, tmp_path)
    file = tmp_path / "tries.jsonl"
    TryLog(file, {}).add(tape, tried)
    log = TryLog(file, {})
    assert (log.get(tape), log.runs) == (tried, 0)


def test_the_runs_of_a_search_are_those_of_all_its_tries() -> None:
    origin = TextOrigin("left", 1, runtime="process", system="upheaval")
    text = SmallestText("title Left\n", origin, Try((LOST,), 1500, 40, runs=2, alike=2), 14, False, {}, 9, 10)
    fields = fields_of(Left(Path("left"), LOST, {}, text=text))["scenario"]
    assert isinstance(fields, dict)
    assert (fields["runs"], fields["fresh_failures"], fields["fresh_runs"]) == (14, 9, 10)


def test_rates_are_told_apart_with_the_error_that_was_chosen() -> None:
    """By counting every sequence of runs: what the test accepts at each rate."""
    shares = {OFTEN: (1 - ERROR, 1.0), 0.9: (0.99, 1.0), RARELY: (0.0, ERROR), 0.02: (0.0, 0.01)}
    for rate, (low, high) in shares.items():
        accepted, open_ones = 0.0, {(0, 0): 1.0}
        while open_ones:
            (alike, runs), share = open_ones.popitem()
            is_often = fails_often(alike, runs)
            if is_often is None:
                for more, part in ((1, rate), (0, 1 - rate)):
                    after = (alike + more, runs + 1)
                    open_ones[after] = open_ones.get(after, 0.0) + share * part
            else:
                accepted += share * is_often
        assert low <= accepted <= high, (rate, accepted)


def test_clusters_that_do_not_start_end_the_search_and_refuse_no_text() -> None:
    with pytest.raises(EnvironmentFault, match="no room"):
        until_decided(of("x" * UNSTARTED_MAX), LOST)


@pytest.mark.parametrize(
    ("shown", "alike", "runs"),
    [("xA-xAAxAAA", 6, 7), ("xxA" * 3 + "x", 3, 3), ("-" * 10, 0, 10)],
    ids=["some unstarted", "never three in a row", "none alike"],
)
def test_only_clusters_in_a_row_that_do_not_start_end_the_fresh_runs(
    shown: str, alike: int, runs: int, tmp_path: Path
) -> None:
    run = of(shown)
    assert live_failures("left", run_in(run), LOST, tmp_path / "run") == (alike, runs)
    assert (tmp_path / "run").is_dir() is (alike > 0)


def test_a_row_of_clusters_that_do_not_start_ends_the_fresh_runs(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="no room"):
        live_failures("left", run_in(of("AA" + "x" * UNSTARTED_MAX)), LOST, tmp_path / "run")


def run_in(run: Callable[[], Try]) -> Callable[[Path], Try]:
    def into(folder: Path) -> Try:
        folder.mkdir()
        try:
            return run()
        except EnvironmentFault:
            folder.rmdir()
            raise

    return into


@pytest.mark.parametrize("changed", ["service", "user", "model"])
def test_tries_of_a_search_do_not_count_for_other_code(changed: str, tmp_path: Path) -> None:
    for name in ("service", "user", "model"):
        (tmp_path / f"{name}.py").write_text(f"class {name.title()}: ...\n")
    own = OwnCode("service:Service", "user:User", str(tmp_path), "model:Model")
    tape = read_text_tape(tape_of_text("title Left\nwait operations 5\n"))
    before = search_fields(1, None, LOST, tape, code_fields(own))
    TryLog(tmp_path / "tries.jsonl", before)
    assert TryLog(tmp_path / "tries.jsonl", search_fields(1, None, LOST, tape, code_fields(own))).runs == 0
    (tmp_path / f"{changed}.py").write_text("# edited\n")
    with pytest.raises(UsageError, match="of code that has changed since"):
        TryLog(tmp_path / "tries.jsonl", search_fields(1, None, LOST, tape, code_fields(own)))


def test_tries_of_a_plan_do_not_count_for_other_rules_of_the_node(tmp_path: Path) -> None:
    """Nor after an edit of our own code, which has another digest."""
    file, failed = tmp_path / "tries.jsonl", Try((LOST,))
    shrink_seed(SeedOrigin(1), failed, file, Budget(0))
    first = json.loads(file.read_text().splitlines()[0])
    assert len(first["digest"]) == 64
    shrink_seed(SeedOrigin(1), failed, file, Budget(0))
    with pytest.raises(UsageError, match="of code that has changed since"):
        shrink_seed(SeedOrigin(1, compatibility="aeron"), failed, file, Budget(0))
    file.write_text(json.dumps({**first, "digest": "0" * 64}) + "\n")
    with pytest.raises(UsageError, match="of code that has changed since"):
        shrink_seed(SeedOrigin(1), failed, file, Budget(0))


def test_data_beside_our_code_is_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, compiled = tmp_path / "protocol" / "codecs.json", tmp_path / "__pycache__" / "cluster.pyc"
    for file in (data, compiled):
        file.parent.mkdir()
        file.write_text("before")
    monkeypatch.setattr(upheaval_node, "__path__", [str(tmp_path)])
    before = own_digest.__wrapped__()
    compiled.write_text("after")
    assert own_digest.__wrapped__() == before
    data.write_text("after")
    assert own_digest.__wrapped__() != before


def test_runs_of_a_try_count_in_the_budget_and_survive_in_the_file(tmp_path) -> None:
    file = tmp_path / "tries.jsonl"
    log = TryLog(file, {"seed": 1})
    log.add({"a": 1}, until_decided(of("A-A"), LOST))
    log.add({"a": 2}, Try((OTHER,)))
    assert log.runs == 4
    again = TryLog(file, {"seed": 1})
    assert again.runs == 4
    assert again.get({"a": 1}) == Try((LOST, OTHER), 1500, 40, runs=3, alike=2)
    assert TryLog(file, {"seed": 2}, replaces=True).runs == 0
