"""How many seeds without a failure exclude it, and what lines of campaigns say of one."""

import json
from pathlib import Path

import pytest

from upheaval.campaign.findability import Seeds, drawn_seeds_with, rate_excluded, seeds_needed, seeds_with
from upheaval.campaign.live import LiveCampaign, LiveOutcome
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.cli.main import main
from upheaval.errors import UsageError
from upheaval_chaos.exit_status import CommandStatus

COMMIT = {"verdict": "invalid", "promise": "invariants", "rule": "commit"}
BALLOT = {"verdict": "invalid", "promise": "invariants", "rule": "ballot"}


def campaign(
    folder: Path, *findings: list[dict[str, str]], clean: int = 0, inconclusive: int = 0, first: int = 0, **of: object
) -> Path:
    lines: list[dict[str, object]] = [{"verdict": "invalid", "fingerprints": each} for each in findings]
    lines += [{"verdict": "valid", "inconclusive": False, "fingerprints": []}] * clean
    lines += [{"verdict": "valid", "inconclusive": True, "fingerprints": []}] * inconclusive
    return written(folder, *({"seed": seed, **line, **of} for seed, line in enumerate(lines, first)))


def written(folder: Path, *lines: dict[str, object]) -> Path:
    folder.mkdir(exist_ok=True)
    with (folder / "seeds.jsonl").open("a", encoding="utf-8") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in lines)
    return folder


def broken(seed: int, **of: object) -> dict[str, object]:
    return {"seed": seed, "verdict": "invalid", "fingerprints": [COMMIT], **of}


@pytest.mark.parametrize(("rate", "seeds"), [(1.0, 1), (0.995, 1), (0.5, 7), (0.1, 44), (0.01, 459), (0.001, 4603)])
def test_so_many_clean_seeds_exclude_a_rate(rate: float, seeds: int) -> None:
    assert seeds_needed(rate) == seeds
    assert (1 - rate) ** seeds <= 0.01
    assert seeds == 1 or (1 - rate) ** (seeds - 1) > 0.01
    assert rate_excluded(seeds) <= rate


def test_no_seed_excludes_nothing() -> None:
    assert rate_excluded(0) == 1
    assert rate_excluded(459) == pytest.approx(0.00998, abs=1e-4)


def test_seeds_count_with_the_failure_or_when_they_are_clean(tmp_path: Path) -> None:
    one = campaign(tmp_path / "one", [COMMIT], [BALLOT], [BALLOT, COMMIT], clean=5, inconclusive=4)
    other = campaign(tmp_path / "other", clean=3, first=100)
    assert seeds_with([one, other], {"promise": "invariants", "rule": "commit"}) == Seeds(10, 2)
    assert seeds_with([one / "seeds.jsonl"], {"promise": "invariants"}) == Seeds(8, 3)
    assert Seeds(0, 0).rate_min == 0
    assert Seeds(20, 1).rate_min == pytest.approx(0.0089, abs=1e-4)
    older = tmp_path / "older.jsonl"
    older.write_text('{"seed": 1, "verdict": "invalid", "promise": "linearizable"}\n{"seed": 2, "verd')
    assert seeds_with([older], {"verdict": "invalid", "promise": "linearizable"}) == Seeds(1, 1)
    older.write_text('{"verdict": "valid"}\n')
    with pytest.raises(UsageError, match=r"older.jsonl:1: not a line of a simulated campaign"):
        seeds_with([older], {})


def test_a_failure_is_fixed_when_enough_seeds_since_are_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = str(campaign(tmp_path / "before", [COMMIT], clean=9))
    few = str(campaign(tmp_path / "few", clean=250))
    many = str(campaign(tmp_path / "many", [BALLOT], clean=10, first=250))
    words = ["fixed", "invariants", "--rule", "commit", "--before", before]
    assert main([*words, few]) == CommandStatus.UNKNOWN
    assert capsys.readouterr().out.startswith("not shown: 6 more seeds without it are needed for 99%")
    assert main([*words, few, many]) == CommandStatus.VALID
    assert capsys.readouterr().out.startswith(
        "fixed with 99%: 260 seeds without it, 256 were needed (1 of 10 seeds showed it before: at least 1.79% of all)"
    )
    assert main(["fixed", "invariants", "--before", before, few, many, "--json"]) == CommandStatus.BROKEN
    assert json.loads(capsys.readouterr().out)["since"] == {"seeds": 261, "failed": 1}
    for wrong in (["fixed", "nothing", "--before", before, few], ["fixed", "linearizable", "--before", before, few]):
        assert main(wrong) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_seed_counts_once_in_however_many_campaigns_it_was_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, since = campaign(tmp_path / "before", [COMMIT], clean=9), str(campaign(tmp_path / "since", clean=100))
    again = str(campaign(tmp_path / "again", clean=100, version="2.0"))
    words = ["fixed", "invariants", "--before", str(before)]
    printed = []
    for folders in ([since], [since] * 3, [since, again]):
        assert main([*words, *folders]) == CommandStatus.UNKNOWN
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] == printed[2]
    written(tmp_path / "again", broken(7))
    assert main([*words, since, again]) == CommandStatus.BROKEN
    assert capsys.readouterr().out.startswith("not fixed: 1 of 100 seeds since show it")


@pytest.mark.parametrize(
    "other",
    [
        {"system": "upheaval compatibility=E7"},
        {"system": "upheaval planted=vote-not-persisted"},
        {"service": "bank.service:Bank", "user": "bank.load:Teller"},
        {"service": "ledger", "own_service": "ledger"},
        {"model": "bank.model:Bank"},
        {"search": "delivery"},
    ],
)
def test_seeds_of_another_subject_show_nothing(
    other: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = {"system": "upheaval", "runtime": "simulated", "service": "ledger", "own_service": "", "search": "uniform"}
    before = str(campaign(tmp_path / "before", *[[COMMIT]] * 9, clean=1, **drawn))
    since = str(campaign(tmp_path / "since", clean=20, **(drawn | other)))
    assert main(["fixed", "invariants", "--before", before, since]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "show nothing of upheaval, search uniform, which" in line


@pytest.mark.parametrize("options", [{"search": "delivery", "model": ""}, {"search": "uniform", "model": "bank:Bank"}])
def test_lines_of_an_older_version_may_be_of_any_search_and_model(
    options: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their campaign has to be known to the user."""
    before = str(campaign(tmp_path / "before", *[[COMMIT]] * 9, clean=1))
    since = campaign(tmp_path / "since", clean=20, **options)
    assert main(["fixed", "invariants", "--before", before, str(since)]) == CommandStatus.VALID
    assert f"{before} was written by an older version" in capsys.readouterr().err
    older = campaign(tmp_path / "older", clean=20)
    assert seeds_with([older, campaign(tmp_path / "again", clean=20, search="uniform", model="")], {}).counted == 20
    assert seeds_with([older, since], {}).counted == 20
    whole = str(campaign(tmp_path / "whole", *[[COMMIT]] * 9, clean=1, **options))
    assert main(["fixed", "invariants", "--before", whole, str(since)]) == CommandStatus.VALID
    assert not capsys.readouterr().err
    other = str(campaign(tmp_path / "other", clean=20, search="other", model=""))
    assert main(["fixed", "invariants", "--before", whole, str(older), other]) == 2


def test_lines_of_live_campaigns_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An invalid one has no fingerprints: it would count for nothing, and valid ones as clean."""
    live = LiveCampaign("process", "upheaval", tmp_path)
    finding = Finding(Promise.COMMITS_KEPT, Verdict.INVALID, "gone")
    lines = [live.line(LiveOutcome(seed, Report("run", (finding,)), 1.0, 500, {})) for seed in range(20)]
    since = written(tmp_path / "since", *lines)
    before = campaign(tmp_path / "before", *[[{"verdict": "invalid", "promise": "commits-kept"}]] * 9, clean=1)
    for command in ([str(before), str(since)], [str(since), str(before)]):
        assert main(["fixed", "commits-kept", "--before", *command]) == 2
        assert "seeds.jsonl:1: not a line of a simulated campaign" in capsys.readouterr().err
    fields = {"runtime": "process", "fingerprints": [], "verdict": "valid", "seed": 1}
    with pytest.raises(UsageError, match="not a line of a simulated campaign"):
        seeds_with([written(tmp_path / "later", fields)], {})


def test_seeds_that_were_tried_first_are_left_out_of_the_rate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unless the campaign came past them, so that it would have run them anyway."""
    wanted = {"promise": "invariants"}
    before = campaign(tmp_path / "before", [COMMIT], clean=9, first=100, remembered=False)
    assert drawn_seeds_with(before, wanted) == Seeds(10, 1)
    written(before, *(broken(seed, remembered=True) for seed in (7, 110, 500)))
    assert drawn_seeds_with(before, wanted) == Seeds(10, 1)
    assert drawn_seeds_with(before, wanted).remembered == 3
    written(before, broken(120, remembered=False))
    assert drawn_seeds_with(before, wanted) == Seeds(12, 3)
    assert seeds_with([before], wanted) == Seeds(14, 5), "since, one that fails is not fixed"
    first = written(tmp_path / "first", broken(7, remembered=True))
    since = str(campaign(tmp_path / "since", clean=10))
    assert main(["fixed", "invariants", "--before", str(first), since]) == 2
    assert "drew breaks invariants: those that failed earlier and were tried first" in capsys.readouterr().err


def test_seeds_that_broke_something_else_make_the_failure_rarer(tmp_path: Path) -> None:
    """Once both are fixed they pass, so the rate has to be one of all seeds. Since, they show nothing."""
    wanted = {"promise": "invariants", "rule": "commit"}
    folder = campaign(tmp_path / "before", [COMMIT], *[[BALLOT]] * 90, clean=9, inconclusive=7)
    written(folder, {"seed": 900, "verdict": "unknown", "fingerprints": [{"verdict": "unknown"}]})
    before = drawn_seeds_with(folder, wanted)
    assert before == Seeds(100, 1)
    assert seeds_needed(before.rate_min) == 2604
    assert seeds_with([folder], wanted) == Seeds(10, 1)


def test_one_failed_seed_is_no_certain_failure(tmp_path: Path) -> None:
    """A campaign that stops at its first failure may have been lucky."""
    before, since = written(tmp_path / "before", broken(1)), campaign(tmp_path / "since", clean=1)
    assert main(["fixed", "invariants", "--before", str(before), str(since)]) == CommandStatus.UNKNOWN
