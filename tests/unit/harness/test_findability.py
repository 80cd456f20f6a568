"""How many seeds without a failure exclude it, and what lines of campaigns say of one."""

import json
from pathlib import Path

import pytest

from upheaval.campaign.findability import Seeds, rate_excluded, seeds_needed, seeds_with
from upheaval.cli.main import main
from upheaval.errors import UsageError
from upheaval_chaos.exit_status import CommandStatus

COMMIT = {"verdict": "invalid", "promise": "invariants", "rule": "commit"}
BALLOT = {"verdict": "invalid", "promise": "invariants", "rule": "ballot"}


def campaign(folder: Path, *findings: list[dict[str, str]], clean: int = 0, inconclusive: int = 0) -> Path:
    lines: list[dict[str, object]] = [{"verdict": "invalid", "fingerprints": each} for each in findings]
    lines += [{"verdict": "valid", "inconclusive": False, "fingerprints": []}] * clean
    lines += [{"verdict": "valid", "inconclusive": True, "fingerprints": []}] * inconclusive
    folder.mkdir()
    texts = (json.dumps({"seed": seed, **line}) + "\n" for seed, line in enumerate(lines))
    (folder / "seeds.jsonl").write_text("".join(texts), encoding="utf-8")
    return folder


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
    other = campaign(tmp_path / "other", clean=3)
    assert seeds_with([one, other], {"promise": "invariants", "rule": "commit"}) == Seeds(10, 2)
    assert seeds_with([one / "seeds.jsonl"], {"promise": "invariants"}) == Seeds(8, 3)
    assert Seeds(0, 0).rate == 0
    older = tmp_path / "older.jsonl"
    older.write_text('{"seed": 1, "verdict": "invalid", "promise": "linearizable"}\n{"seed": 2, "verd')
    assert seeds_with([older], {"verdict": "invalid", "promise": "linearizable"}) == Seeds(1, 1)
    older.write_text('{"verdict": "valid"}\n')
    with pytest.raises(UsageError, match=r"older.jsonl:1: no line of a simulated campaign"):
        seeds_with([older], {})


def test_a_failure_is_fixed_when_enough_seeds_since_are_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = str(campaign(tmp_path / "before", [COMMIT], clean=9))
    few, many = str(campaign(tmp_path / "few", clean=40)), str(campaign(tmp_path / "many", [BALLOT], clean=10))
    words = ["fixed", "invariants", "--rule", "commit", "--before", before]
    assert main([*words, few]) == CommandStatus.UNKNOWN
    assert capsys.readouterr().out.startswith("not shown: 4 more seeds without it are needed for 99%")
    assert main([*words, few, many]) == CommandStatus.VALID
    assert capsys.readouterr().out.startswith("fixed with 99%: 50 seeds without it, 44 were needed (1 of 10 seeds")
    assert main(["fixed", "invariants", "--before", before, few, many, "--json"]) == CommandStatus.BROKEN
    assert json.loads(capsys.readouterr().out)["since"] == {"seeds": 51, "failed": 1}
    for wrong in (["fixed", "nothing", "--before", before, few], ["fixed", "linearizable", "--before", before, few]):
        assert main(wrong) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
