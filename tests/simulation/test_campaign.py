"""Campaigns: what a seed draws, what it is judged by, what the command prints, and a short campaign of a few seeds."""

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from upheaval.campaign.campaign import Summary, run_campaign
from upheaval.campaign.goals.table import GOALS
from upheaval.campaign.live import LiveSummary
from upheaval.campaign.seed import (
    OPERATIONS_MIN,
    Fate,
    SeedOrigin,
    SeedOutcome,
    SeedRun,
    keep_seed,
    seed_of_run,
    try_seed,
)
from upheaval.campaign.seeds import parse_seeds
from upheaval.campaign.shrink_text import MORE, SCENARIO_FILE
from upheaval.campaign.swarm import KINDS, LOSING_POWER, OF_SEVERAL, WRONG_BYTES, draw_swarm
from upheaval.campaign.swarm_tape import tape_of
from upheaval.campaign.tries import TRIES_FILE
from upheaval.checkers.promises import Promise
from upheaval.checkers.signature import Rule
from upheaval.checkers.verdict import Verdict
from upheaval.cli.campaign import GOALS_SHOWN, as_text
from upheaval.cli.main import main
from upheaval.errors import UsageError
from upheaval.execution.invariants import Invariants
from upheaval.records import Function, Operation, Outcome, RunFolder
from upheaval.runtimes.simulated.cluster import SimulatedCluster
from upheaval.runtimes.simulated.errors import PromiseBroken
from upheaval.runtimes.simulated.world import World
from upheaval.waits import wait_until
from upheaval_chaos.exit_status import CommandStatus
from upheaval_node import counters as counter_types
from upheaval_node.types import S

SHORT = (1, 3, 8)
VALID = 9
"""A seed."""

PROVED_SHARE_MIN = 0.7
"""Of the faults that are planned. Over the first forty seeds it is 0.84."""


def test_a_seed_draws_the_same_cluster_every_time_and_another_one_than_the_next() -> None:
    assert draw_swarm(7) == draw_swarm(7)
    assert len({draw_swarm(seed).to_fields()["faults"].__str__() for seed in range(50)}) == 50


def test_seeds_together_draw_everything_there_is() -> None:
    swarms = [draw_swarm(seed) for seed in range(300)]
    assert {swarm.members for swarm in swarms} == {1, 3, 5}
    assert {swarm.sync_level for swarm in swarms} == {0, 1, 2}
    assert {swarm.time_unit for swarm in swarms} == {"MILLIS", "MICROS", "NANOS"}
    kinds = {planned.kind for swarm in swarms for _, planned in swarm.named_faults()}
    assert kinds == {*KINDS, WRONG_BYTES}


def test_what_is_no_promise_is_not_drawn() -> None:
    """Without syncs no member loses power, and a lone member has no links to others."""
    for swarm in map(draw_swarm, range(300)):
        kinds = {fault.kind for fault in swarm.faults}
        assert swarm.sync_level > 0 or not kinds & LOSING_POWER
        assert swarm.members > 1 or not kinds & OF_SEVERAL
        assert swarm.settings().cluster.file_sync_level == swarm.sync_level


@pytest.mark.parametrize(("text", "seeds"), [("3..5", range(3, 6)), ("8", range(8, 9))])
def test_seeds_are_given_as_a_range(text: str, seeds: range) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a..b", "5..3", "1..", "..2", "-1..2", f"1..{'9' * 19}", "9" * 5000])
def test_what_is_no_range_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError):
        parse_seeds(text)
    assert main(["campaign", f"--seeds={text}"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.fixture(scope="module")
def short_campaign(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Summary]:
    folder = tmp_path_factory.mktemp("campaign")
    return folder, run_campaign(SHORT, out=folder)


def test_a_short_campaign_is_valid_and_says_what_it_exercised(short_campaign: tuple[Path, Summary]) -> None:
    folder, summary = short_campaign
    assert [(each.swarm.seed, each.promise, each.detail) for each in summary.failed] == []
    assert summary.inconclusive == []
    lines = [json.loads(line) for line in (folder / "seeds.jsonl").read_text().splitlines()]
    assert [line["seed"] for line in lines] == list(SHORT)
    assert all(line["simulated_seconds"] >= 60 and line["operations"] >= 500 for line in lines)
    assert [line["tape"] for line in lines] == [tape_of(draw_swarm(seed)).to_fields() for seed in SHORT]
    assert json.loads((folder / "summary.json").read_text()) == summary.to_fields()
    text = as_text(summary)
    for kind, counts in summary.faults.items():
        row = (kind, *(str(counts[fate]) for fate in Fate))
        assert row in {tuple(line.split()) for line in text.splitlines()}
    for kind, counts in summary.variations.items():
        assert counts[Fate.PROVED] == counts[Fate.PLANNED] > 0
        assert (kind, *(str(counts[fate]) for fate in Fate)) in {tuple(line.split()) for line in text.splitlines()}
    assert summary.variations.keys() == {kind for seed in SHORT for kind in draw_swarm(seed).variations.drawn()}
    assert [set(line["seen_variations"]) for line in lines] == [set(draw_swarm(s).variations.drawn()) for s in SHORT]
    assert "CANVASS>NOMINATE" in text
    assert "CANVASS>NOMINATE" not in summary.untaken_moves
    assert set(summary.untaken_moves).isdisjoint(summary.moves)
    assert summary.untaken_moves
    goals = [goal for line in lines for goal in line["goals"]]
    assert summary.goals == Counter(goals)
    assert {"leader-silent", "follower-catches-up", "start-from-the-beginning"} <= set(goals)
    assert set(summary.unreached_goals) == {goal.name for goal in GOALS} - set(goals)
    assert f"{len(set(goals))} of {len(GOALS)} goals reached; never: {summary.unreached_goals[0]}" in text


def test_the_goals_that_a_campaign_missed_are_named_up_to_a_screenful() -> None:
    few, none = Summary(), Summary()
    few.goals.update(goal.name for goal in GOALS[2:])
    none.goals.update(goal.name for goal in GOALS)
    last = [as_text(summary).splitlines()[-1] for summary in (few, none, Summary())]
    count, shown = len(GOALS), ", ".join(goal.name for goal in GOALS[:GOALS_SHOWN])
    assert last[0] == f"{count - 2} of {count} goals reached; never: {GOALS[0].name}, {GOALS[1].name}"
    assert last[1] == f"{count} of {count} goals reached"
    assert last[2] == f"0 of {count} goals reached; never: {shown}, {count - GOALS_SHOWN} others (--json)"


def require_counted(faults: Mapping[str, Counter[Fate]], seeds: tuple[int, ...]) -> None:
    planned = Counter(planned.kind for seed in seeds for _, planned in draw_swarm(seed).named_faults())
    assert {kind: counts[Fate.PLANNED] for kind, counts in faults.items()} == planned
    for counts in faults.values():
        assert counts[Fate.PLANNED] == counts[Fate.PROVED] + counts[Fate.UNSEEN] + counts[Fate.LEFT_OUT]


def test_most_of_what_a_campaign_plans_is_proved(short_campaign: tuple[Path, Summary]) -> None:
    _, summary = short_campaign
    require_counted(summary.faults, SHORT)
    total = sum(summary.faults.values(), Counter[Fate]())
    assert total[Fate.PROVED] >= PROVED_SHARE_MIN * total[Fate.PLANNED], summary.faults
    assert summary.to_fields()["faults"] == {
        kind: {fate.value: counts[fate] for fate in Fate} for kind, counts in sorted(summary.faults.items())
    }


@pytest.mark.pure
def test_what_was_planned_after_the_end_of_a_run_is_left_out(tmp_path: Path) -> None:
    run = SeedRun(draw_swarm(1), tmp_path / "run", "commit-position-goes-back")
    broken = run.run()
    assert broken.promise == Promise.INVARIANTS
    require_counted(broken.faults, (1,))
    later = [planned for _, planned in run.swarm.named_faults() if planned.start_ns > broken.seconds * S]
    assert later
    assert sum(counts[Fate.LEFT_OUT] for counts in broken.faults.values()) >= len(later)


@pytest.mark.pure
def test_a_seed_that_catches_a_bug_fails_with_the_line_that_runs_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["campaign", "--seeds", "1..3", "--planted", "vote-not-persisted"]) == 1
    captured = capsys.readouterr()
    assert "upheaval campaign --seeds 1..1 --planted vote-not-persisted --dir runs/seed-1" in captured.err
    assert captured.out.startswith("1 seed: 0 count, 0 inconclusive, 1 failed")


def test_a_kept_run_writes_no_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["campaign", "--seeds", "1", "--dir", str(tmp_path / "a"), "--out", str(tmp_path / "b")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.pure
def test_a_seed_that_breaks_an_invariant_leaves_its_run_folder(tmp_path: Path) -> None:
    """With the protocol trace, and as the same execution as without it."""
    bug = "commit-position-goes-back"
    outcome = keep_seed(SeedOrigin(1, bug), tmp_path / "kept").outcome
    assert (outcome.promise, outcome.detail) == (Promise.INVARIANTS, try_seed(1, bug, tmp_path).detail)
    assert RunFolder(tmp_path / "kept").read_manifest().planted == bug
    assert main(["trace", str(tmp_path / "kept"), "--message", "CommitPosition"]) == 0


@pytest.mark.pure
def test_the_folder_of_a_failed_seed_knows_why_it_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept, again = tmp_path / "kept", tmp_path / "again"
    options = ["--seeds", "1", "--planted", "commit-position-goes-back"]
    assert main(["campaign", *options, "--dir", str(kept), "--json"]) == 1
    outcome = json.loads(capsys.readouterr().out)
    detail = outcome["detail"]
    assert outcome["folder"] == str(kept)
    for command in (["verify", str(kept)], ["replay", str(kept), "--dir", str(again)], ["verify", str(again)]):
        assert main([*command, "--json"]) == 1
        printed = capsys.readouterr()
        promises = {each["promise"]: each for each in json.loads(printed.out)["promises"]}
        assert (promises[Promise.INVARIANTS]["verdict"], promises[Promise.INVARIANTS]["detail"]) == ("invalid", detail)
        assert promises[Promise.EVIDENCE_SEALED]["verdict"] == "valid"
        assert ("this was the same execution" in printed.err) is (command[0] == "replay")
    assert main(["report", str(kept)]) == 0
    assert Promise.INVARIANTS.sentence in (kept / "report.html").read_text()


@pytest.mark.pure
def test_a_failed_seed_is_made_simpler_as_long_as_it_fails_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second start knows what the first one tried; the run that is left is replayed from its tape."""
    bug, run, out = "commit-position-goes-back", tmp_path / "run", tmp_path / "run-smallest"
    failed = keep_seed(SeedOrigin(1, bug), run).outcome
    printed = []
    for _ in range(2):
        assert main(["shrink", str(run), "--runs", "3", "--json"]) == 0
        printed.append(json.loads(capsys.readouterr().out))
    assert printed[0] == printed[1]
    assert printed[0]["fingerprint"] == failed.fingerprints[0].to_fields()
    assert printed[0]["fingerprint"]["rule"] == Rule.COMMIT_WENT_BACK
    assert (printed[0]["runs"], printed[0]["is_over"]) == (3, True)
    assert (printed[0]["scenario"]["runs"], printed[0]["scenario"]["is_over"]) == (0, True)
    assert printed[0]["scenario"]["fresh_failures"] == printed[0]["scenario"]["fresh_runs"] == 20
    assert (out / SCENARIO_FILE).read_text() == printed[0]["scenario"]["text"]
    assert printed[0]["scenario"]["text"].startswith(f"{MORE}\n")
    assert len((out / TRIES_FILE).read_text().splitlines()) == 1 + 3
    left = seed_of_run(out)
    assert left is not None
    assert tape_of(left.swarm()).to_fields() == printed[0]["tape"]
    assert len(left.swarm().faults) < len(failed.swarm.faults)
    assert left.swarm().seconds < failed.swarm.seconds
    assert main(["replay", str(out), "--dir", str(tmp_path / "again")]) == 1
    assert "this was the same execution" in capsys.readouterr().err
    assert main(["shrink", str(run), "--out", str(run)]) == 2
    assert main(["shrink", str(tmp_path)]) == 2


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_interrupted_campaign_says_what_it_did_until_then(workers: str, tmp_path: Path) -> None:
    program = [sys.executable, "-m", "upheaval.cli.main"]
    command = [*program, "campaign", "--seeds", "1..1000", "--workers", workers, "--out", "out"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        lines = tmp_path / "out" / "seeds.jsonl"
        wait_until(lines.is_file, timeout_s=300, describe=lambda: "no seed has ended")
        started.send_signal(signal.SIGINT)
        said, errors = started.communicate()
    assert started.returncode == 130, errors
    count = len(lines.read_text().splitlines())
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["seeds"] == count
    assert re.match(rf"{count} seeds?: ", said)


def test_a_run_folder_that_cannot_be_judged_is_unknown(tmp_path: Path) -> None:
    run = SeedRun(draw_swarm(1).plain(), tmp_path)
    run.cluster.write()
    run.cluster.run.history_file.write_text("no history\n")
    run._judge()
    assert (run.outcome.verdict, run.outcome.promise) == ("unknown", Promise.FOLDER_JUDGED)
    assert "history.jsonl:1" in run.outcome.detail
    run._fail(Verdict.INVALID, Promise.LINEARIZABLE, "a result is wrong")
    run._judge()
    assert run.outcome.promise == Promise.LINEARIZABLE
    assert [line.split(":")[0] for line in run.outcome.to_fields()["findings"]] == [
        f"unknown, {Promise.FOLDER_JUDGED.sentence}",
        f"invalid, {Promise.LINEARIZABLE.sentence}",
    ]


@pytest.mark.pure
def test_a_seed_is_the_same_execution_again(tmp_path: Path) -> None:
    bug = "commit-position-goes-back"
    first, second = (try_seed(1, bug, tmp_path) for _ in range(2))
    assert (first.verdict, first.promise) == ("invalid", Promise.INVARIANTS)
    assert (first.detail, first.seconds, first.moves) == (second.detail, second.seconds, second.moves)
    assert list(tmp_path.iterdir()) == []


def proved(kills: int) -> dict[str, Counter[Fate]]:
    """Of more that were planned."""
    return {"kill": Counter({Fate.PLANNED: 9, Fate.PROVED: kills, Fate.UNSEEN: 9 - kills})}


@pytest.mark.parametrize("change", [{"operations": 499}, {"seconds": 59.0}, {"elections": 0}, {"faults": proved(2)}])
def test_a_seed_that_shows_too_little_is_inconclusive(change: dict[str, object]) -> None:
    full: dict[str, object] = {"operations": 500, "seconds": 60.0, "elections": 1, "faults": proved(3)}
    assert not outcome(full).is_inconclusive
    thin = outcome(full | change)
    summary = Summary()
    summary.add(thin)
    assert thin.is_inconclusive
    assert (summary.counted, summary.inconclusive) == (0, [1])
    assert summary.verdict is Verdict.UNKNOWN
    summary.add(outcome(full))
    assert summary.verdict is Verdict.VALID


def test_a_load_that_faults_interrupt_for_long_goes_on_until_its_seed_counts(tmp_path: Path) -> None:
    interrupted = try_seed(9702032, None, tmp_path)
    assert interrupted.operations >= OPERATIONS_MIN
    assert not interrupted.is_inconclusive


@pytest.mark.pure
def test_a_campaign_without_a_seed_that_counts_is_unknown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upheaval.campaign.seed.OPERATIONS_MIN", 10**6)
    assert main(["campaign", "--seeds", str(VALID)]) == CommandStatus.UNKNOWN
    captured = capsys.readouterr()
    assert captured.out.startswith("1 seed: 0 count, 1 inconclusive, 0 failed")
    assert "no seed counts" in captured.err
    assert LiveSummary().verdict is Verdict.UNKNOWN


def test_other_rules_and_planted_bugs_make_another_system() -> None:
    """Its failures are not those of the node."""
    other = SeedOutcome(replace(draw_swarm(1), compatibility="E7"), planted="vote-not-persisted")
    assert other.to_fields()["system"] == "upheaval compatibility=E7 planted=vote-not-persisted"
    assert SeedOutcome(draw_swarm(1)).to_fields()["system"] == "upheaval"


def outcome(fields: dict[str, object]) -> SeedOutcome:
    made = SeedOutcome(draw_swarm(1))
    for name, value in fields.items():
        setattr(made, name, value)
    return made


class Watched:
    """A cluster with a leader under invariants."""

    def __init__(self) -> None:
        self.cluster = SimulatedCluster(World(3))
        self.invariants = Invariants(self.cluster)
        self.cluster.start_all()
        self.leader = self.cluster.wait_until_leader()
        self.cluster.world.run_for(S)

    def set(self, member_id: int, type_id: int, value: int) -> None:
        counter = self.cluster.members[member_id].counters.find(type_id)
        assert counter is not None
        counter.set(value)

    def get(self, member_id: int, type_id: int) -> int:
        counter = self.cluster.members[member_id].counters.find(type_id)
        assert counter is not None
        return counter.get()


def test_a_commit_position_that_goes_back_is_seen() -> None:
    watched = Watched()
    follower = (watched.leader + 1) % 3
    watched.set(follower, counter_types.COMMIT_POSITION, 0)
    with pytest.raises(PromiseBroken, match="went back"):
        watched.invariants.check(watched.cluster.members[follower])


def test_a_second_leader_of_a_term_is_seen() -> None:
    watched = Watched()
    watched.set((watched.leader + 1) % 3, counter_types.CLUSTER_NODE_ROLE, 2)
    with pytest.raises(PromiseBroken, match="both lead term 0"):
        watched.cluster.world.run_for(S)


def test_an_answer_ahead_of_every_commit_is_seen() -> None:
    watched = Watched()
    position = watched.get(watched.leader, counter_types.COMMIT_POSITION)
    early = Operation(1, 1, Function.ECHO, "", "a", 0, 1, Outcome.OK, "a", position + 64)
    with pytest.raises(PromiseBroken, match=r"^seed \d+: .*was acknowledged at"):
        watched.invariants.check_acknowledged(early)
