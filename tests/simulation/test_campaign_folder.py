"""The folder of a campaign: the runs that it keeps, campaigns that replace it, and those at the same time."""

import json
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from upheaval.campaign.campaign import Summary, in_processes, in_turn, run_campaign
from upheaval.campaign.kept import KEPT_MAX, keep_run, mark_kept, move_to_scratch
from upheaval.campaign.memory import FailedSeeds
from upheaval.campaign.seed import SeedOrigin, SeedOutcome, try_origin
from upheaval.campaign.seed_lines import SEED_FILE
from upheaval.campaign.shrink import Budget
from upheaval.campaign.swarm import draw_swarm
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.cli import campaign as commands
from upheaval.cli.fault_commands import CampaignOptions
from upheaval.cli.live_campaign import labelled_seeds
from upheaval.cli.main import main
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records.labels import read_labels

BUG = "commit-position-goes-back"
"""Seed 1 breaks an invariant by it in a moment."""
COUNTS = 3
INCONCLUSIVE = 9_700_061
"""Valid seeds."""


def failing(out: Path, *, keep: bool = True) -> Summary:
    return run_campaign([1], planted=BUG, keep=out if keep else None, out=out)


def entries(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir() if not path.name.startswith("."))


def lines(out: Path) -> list[int]:
    return [json.loads(line)["seed"] for line in (out / "seeds.jsonl").read_text().splitlines()]


@pytest.mark.pure
def test_a_seed_that_is_kept_again_takes_the_place_of_its_run(tmp_path: Path) -> None:
    """As when Spark runs a task again whose executor was lost."""
    keep = tmp_path / "keep"
    for _ in range(3):
        outcome = try_origin(SeedOrigin(1, BUG), tmp_path / "scratch", partial(keep_run, out=keep))
        assert outcome.folder == str(keep / "seed-1")
        assert [path.name for path in keep.iterdir()] == ["seed-1"]
        assert not (keep / "seed-1" / "seed-1").exists()
    assert Promise.INVARIANTS in {finding.promise for finding in verify_run(keep / "seed-1").findings}


def test_a_campaign_keeps_some_run_folders_each_as_a_whole(tmp_path: Path) -> None:
    for seed in range(KEPT_MAX + 1):
        run = tmp_path / "scratch" / f"seed-{seed}"
        run.mkdir(parents=True)
        place = keep_run(run, tmp_path / "out")
        assert place == (tmp_path / "out" / run.name if seed < KEPT_MAX else None)
    again = tmp_path / "scratch" / "seed-0"
    again.mkdir()
    assert keep_run(again, tmp_path / "out") == tmp_path / "out" / "seed-0", "it takes the place of its own run"


def test_the_first_failed_seeds_are_kept_whichever_worker_is_first(tmp_path: Path) -> None:
    """A campaign runs them at once, so they end in any order."""
    keep, folder = tmp_path / "keep", tmp_path / "failed"
    moved = {}
    for seed in (*range(2, KEPT_MAX + 3), 1):
        run = tmp_path / f"seed-{seed}"
        run.mkdir()
        moved[seed] = move_to_scratch(run, folder, keep)
    assert not keep.exists()
    seeds = sorted(moved)
    outcomes = (SeedOutcome(draw_swarm(seed), folder=str(moved[seed])) for seed in seeds)
    kept = [str(keep / f"seed-{seed}") for seed in seeds[:KEPT_MAX]]
    assert [outcome.folder for outcome in in_turn(outcomes, keep)] == [*kept, "", ""]
    assert sorted(map(str, keep.iterdir())) == kept
    assert list(folder.iterdir()) == []
    late = tmp_path / "seed-99"
    late.mkdir()
    assert move_to_scratch(late, folder, keep) is None


@pytest.mark.pure
def test_a_failed_seed_whose_outcome_is_not_taken_leaves_no_folder(tmp_path: Path) -> None:
    """The failed one is over in a moment, the other one takes long."""
    keep = tmp_path / "keep"
    with in_processes([SeedOrigin(COUNTS), SeedOrigin(1, BUG)], keep, workers=2) as outcomes:
        assert next(outcomes).is_valid
    assert not keep.exists()
    with in_processes([SeedOrigin(COUNTS), SeedOrigin(1, BUG)], keep, workers=2) as outcomes:
        assert [outcome.folder for outcome in outcomes] == ["", str(keep / "seed-1")]


@pytest.mark.pure
def test_a_campaign_of_a_planted_bug_keeps_the_run_of_its_failed_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some of its findings are about files."""
    options = ["--seeds", "1..9", "--planted", "vote-not-persisted", "--out", str(tmp_path)]
    assert main(["campaign", *options]) == 1
    run = tmp_path / "seed-1"
    assert f"left: {run}\n" in capsys.readouterr().err
    assert entries(tmp_path) == ["seed-1", "seeds.jsonl", "summary.json"]
    (line,) = map(json.loads, (tmp_path / "seeds.jsonl").read_text().splitlines())
    assert line["folder"] == str(run)
    paths = [word for finding in line["findings"] for word in finding.split() if word.endswith("recording.log")]
    assert set(paths) == {"member-0/cluster/recording.log"}
    assert (run / paths[0]).is_file()
    assert main(["verify", str(run)]) == 1


@pytest.mark.pure
def test_a_campaign_replaces_what_an_earlier_one_left_in_its_folder(tmp_path: Path) -> None:
    for _ in range(3):
        failing(tmp_path)
        assert (lines(tmp_path), entries(tmp_path)) == ([1], ["seed-1", "seeds.jsonl", "summary.json"])
        assert not (tmp_path / "seed-1" / "seed-1").exists()
    smallest, torn = tmp_path / "seed-1-smallest", tmp_path / ".seed-1.0.coming"
    for folder in (smallest, torn):
        folder.mkdir()
    mark_kept(smallest, tmp_path)
    run_campaign([], out=tmp_path)
    assert entries(tmp_path) == ["summary.json"]
    assert not torn.exists()


@pytest.mark.pure
def test_the_earlier_campaign_stays_when_the_next_one_cannot_begin(tmp_path: Path) -> None:
    """As when Spark does not start."""
    failing(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    @contextmanager
    def broken(_origins: Sequence[SeedOrigin], _keep: Path | None) -> Iterator[Iterator[SeedOutcome]]:
        raise EnvironmentFault("no Java")
        yield

    with pytest.raises(EnvironmentFault, match="no Java"):
        run_campaign([2], runner=broken, keep=tmp_path, out=tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.pure
@pytest.mark.parametrize("workers", [1, 2])
def test_a_runner_begins_no_seed_before_the_earlier_campaign_is_removed(workers: int, tmp_path: Path) -> None:
    keep, asked = tmp_path / "keep", []

    class Watched(list[SeedOrigin]):
        def __iter__(self) -> Iterator[SeedOrigin]:
            asked.append(keep.exists())
            return super().__iter__()

    with in_processes(Watched([SeedOrigin(1, BUG)]), keep, workers=workers) as outcomes:
        assert not asked
        assert next(outcomes).folder == str(keep / "seed-1")


@pytest.mark.pure
def test_the_same_folder_by_another_path_is_replaced(tmp_path: Path) -> None:
    out, link = tmp_path / "out", tmp_path / "link"
    link.symlink_to(out)
    (tmp_path / "a").mkdir()
    for spelled in (out, tmp_path / "a" / ".." / "out", link, out):
        failing(spelled)
        assert entries(out) == ["seed-1", "seeds.jsonl", "summary.json"]
    (out / "seed-1" / "kept.json").write_text(json.dumps({"campaign": str(tmp_path / "a" / ".." / "out")}))
    failing(out)


@pytest.mark.pure
def test_runs_that_no_campaign_kept_there_stay_and_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(tmp_path)
    own, linked, moved = (tmp_path / name for name in ("seed-2", "seed-3", "moved"))
    assert main(["campaign", "--seeds", "1", "--planted", BUG, "--dir", str(own)]) == 1
    capsys.readouterr()
    assert (own / SEED_FILE).is_file()
    (tmp_path / "seed-1").rename(moved)
    linked.symlink_to(moved)
    for refused in (own, linked):
        before = entries(tmp_path)
        with pytest.raises(UsageError, match=rf"kept {refused}: move it, or give another --out"):
            failing(tmp_path)
        assert main(["campaign", "--seeds", str(COUNTS), "--out", str(tmp_path)]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
        assert (entries(tmp_path), lines(tmp_path)) == (before, [1])
        refused.rename(tmp_path / f"refused-{refused.name}")
    other = tmp_path / "other"
    shutil.copytree(moved, other / "seed-1")
    with pytest.raises(UsageError, match=f"kept {other / 'seed-1'}"):
        failing(other)
    assert entries(other) == ["seed-1"]


@pytest.mark.pure
def test_another_campaign_in_the_same_folder_is_refused_until_the_first_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []

    def show(outcome: SeedOutcome) -> None:
        shown.append(outcome.swarm.seed)
        with pytest.raises(UsageError, match="another campaign writes to"):
            failing(tmp_path)
        assert main(["campaign", "--seeds", "5", "--out", str(tmp_path)]) == 2
        assert f"another campaign writes to {tmp_path}" in capsys.readouterr().err

    run_campaign([1, 2], planted=BUG, out=tmp_path, show=show)
    assert shown == lines(tmp_path) == [1, 2]
    assert json.loads((tmp_path / "summary.json").read_text())["seeds"] == 2
    failing(tmp_path, keep=False)
    assert lines(tmp_path) == [1]


@pytest.mark.pure
def test_a_run_that_replaces_an_earlier_one_has_labels_of_its_own(tmp_path: Path) -> None:
    for commit in ("1", "2"):
        with labelled_seeds(tmp_path, [("commit", commit)]):
            failing(tmp_path)
        assert read_labels(tmp_path / "seed-1")["commit"] == commit


@pytest.mark.pure
def test_what_a_campaign_made_simpler_is_replaced_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search of the user's own is not."""
    monkeypatch.setattr("upheaval.cli.campaign.Budget", partial(Budget, 2))
    command = ["campaign", "--seeds", "1", "--planted", BUG, "--shrink", "--out", str(tmp_path)]
    for _ in range(2):
        assert main(command) == 1
        assert entries(tmp_path) == ["seed-1", "seed-1-smallest", "seeds.jsonl", "summary.json"]
    assert "fails alike" in capsys.readouterr().err
    (tmp_path / "seed-1-smallest" / "kept.json").unlink()
    assert main(command) == 2


@pytest.mark.pure
def test_a_search_that_is_killed_is_replaced_and_one_that_goes_on_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["campaign", "--seeds", "1", "--planted", BUG, "--shrink", "--out", str(tmp_path)]
    smallest, searches = tmp_path / "seed-1-smallest", []

    def killed(*_: object, **_named: object) -> NoReturn:
        with pytest.raises(UsageError, match="another campaign writes to"):
            failing(tmp_path)
        searches.append(entries(smallest))
        raise RuntimeError("it ends here")

    monkeypatch.setattr("upheaval.cli.shrink.shrink_seed", killed)
    for _ in range(2):
        assert main(command) > 1
    failed = str(tmp_path / "failed")
    assert main([*command[:5], "--dir", failed]) == 1
    assert main(["shrink", failed, "--out", str(smallest)]) > 1
    assert searches == [["kept.json"]] * 3
    failing(tmp_path)
    (tmp_path / "seed-1" / "own").touch()
    assert main(["shrink", failed, "--out", str(tmp_path / "seed-1")]) == 2
    assert "seed-1 exists and is not the folder of a search" in capsys.readouterr().err
    assert (tmp_path / "seed-1" / "own").exists()


@pytest.mark.pure
def test_a_search_of_the_user_begun_meanwhile_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smallest, print_failure = tmp_path / "seed-1-smallest", commands.as_text

    def begun(summary: Summary) -> str:
        smallest.mkdir()
        (smallest / "own").touch()
        return print_failure(summary)

    monkeypatch.setattr(commands, "as_text", begun)
    assert main(["campaign", "--seeds", "1", "--planted", BUG, "--shrink", "--out", str(tmp_path)]) == 1
    assert entries(smallest) == ["own"]


@pytest.mark.pure
def test_a_folder_is_held_until_its_lines_are_in_a_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    def then() -> None:
        assert lines(tmp_path) == [1]
        with pytest.raises(UsageError, match="another campaign writes to"):
            failing(tmp_path)
        ended.append(True)

    def on_spark(_name: str, options: CampaignOptions) -> int:
        return commands.campaign_by(None, options, then)

    monkeypatch.setattr(commands, "in_pipeline", on_spark)
    words = ["--planted", BUG, "--engine", "spark", "--out", str(tmp_path)]
    assert main(["campaign", "--seeds", "1", *words]) == 1
    assert ended == [True]
    failing(tmp_path)


def test_a_failed_seed_is_forgotten_by_a_run_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    memory = FailedSeeds(tmp_path / "runs", None)
    for seed in (COUNTS, INCONCLUSIVE):
        memory.note(seed, has_failed=True)
    assert main(["campaign", "--seeds", str(COUNTS), "--out", "out"]) == 0
    assert memory.seeds == [INCONCLUSIVE]
    rows = [json.loads(line) for line in (tmp_path / "out" / "seeds.jsonl").read_text().splitlines()]
    assert [(line["seed"], line["remembered"]) for line in rows] == [(INCONCLUSIVE, True), (COUNTS, True)]


def test_campaigns_at_the_same_time_remember_the_seeds_of_each(tmp_path: Path) -> None:
    memories = [FailedSeeds(tmp_path, None, search) for search in ("uniform", "delivery", "third", "fourth")]

    def note_all(memory: FailedSeeds) -> None:
        for seed in range(20):
            memory.note(seed, has_failed=True)

    with ThreadPoolExecutor(len(memories)) as threads:
        for done in [threads.submit(note_all, memory) for memory in memories]:
            done.result()
    assert [sorted(memory.seeds) for memory in memories] == [list(range(20))] * len(memories)
