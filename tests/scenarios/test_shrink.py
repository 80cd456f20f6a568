"""`upheaval shrink` on runs of scenarios: a text of a few lines that fails in the same way when it is run."""

import json
import shlex
from pathlib import Path

import pytest

from upheaval.campaign.again import as_recorded
from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.seed import SeedOrigin, keep_seed
from upheaval.campaign.tries import Try
from upheaval.checkers.signature import Rule
from upheaval.cli.main import main
from upheaval.records import MadeByTest, write_made_by_test

BUG = "commit-position-goes-back"
OTHER_BUG = "commit-without-a-quorum"
WENT_BACK = (Rule.COMMIT_WENT_BACK, "FOLLOWER", "CANVASS")
TEXT = """title A leader dies, and more happens
cluster members=3 sync-level=2
workload rate=40
invariants on
wait operations 3
begin slow slow member-2 -> member-0 latency-ms=2
inject dead kill leader
wait leader other-than dead
heal dead
end slow
"""


def require_explained(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The member whose commit position went back, when, what the others knew, and the messages that led there."""
    assert main(["explain", str(run), "--json"]) == 0
    explained = json.loads(capsys.readouterr().out)
    assert explained["finding"]["promise"] == "invariants"
    assert explained["finding"]["members"] == [explained["member"]]
    assert 0 < explained["last_good_ns"] < explained["moment_ns"]
    assert explained["members"][explained["member"]]["state"] == "CANVASS"
    steps = explained["steps"]
    assert all(explained["last_good_ns"] <= step["ns"] <= explained["moment_ns"] for step in steps)
    assert {"CANVASS", "CanvassPosition"} <= {step["what"] for step in steps}
    assert main(["explain", str(run), "--promise", "invariants"]) == 0
    assert f"by member {explained['member']}, " in capsys.readouterr().out
    for words, why in (
        (["--promise", "linearizable"], "does not break linearizable"),
        (["--promise", "x"], "unknown promise"),
    ):
        assert main(["explain", str(run), *words]) == 2
        assert why in capsys.readouterr().err


QUIET = """title Nothing happens
workload rate=100
invariants on
wait operations 20
"""


@pytest.mark.pure
def test_a_run_of_a_scenario_is_made_simpler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("more.scenario").write_text(TEXT, encoding="utf-8")
    assert main(["run", "more.scenario", "--planted", BUG, "--dir", "run", "--json"]) == 1
    promises = {each["promise"]: each for each in json.loads(capsys.readouterr().out)["promises"]}
    signature = promises["invariants"]["signature"]
    assert signature == {"rule": Rule.COMMIT_WENT_BACK, "role": "FOLLOWER", "state": "CANVASS"}
    require_explained(Path("run"), capsys)
    assert main(["shrink", "run", "--runs", "12", "--json"]) == 0
    shrunk = json.loads(capsys.readouterr().out)
    scenario = shrunk["scenario"]
    assert shrunk["fingerprint"] == {"verdict": "invalid", "promise": "invariants", **signature}
    assert Path("run-smallest/smallest.scenario").read_text(encoding="utf-8") == scenario["text"]
    lines = scenario["text"].splitlines()
    assert not [line for line in lines if "slow" in line]
    assert "inject dead kill leader" in lines
    program, *words = shlex.split(scenario["command"])
    assert program == "upheaval"
    assert main([*words, "--dir", "again", "--json"]) == 1
    again = {each["promise"]: each for each in json.loads(capsys.readouterr().out)["promises"]}
    assert again["invariants"]["signature"] == signature
    assert main(["shrink", "run", "--runs", "12"]) == 0
    assert "inject dead kill leader" in capsys.readouterr().out


SHORT = """title A leader dies
invariants on
wait operations 3
inject dead kill leader
wait leader other-than dead
heal dead
"""


@pytest.mark.pure
def test_a_run_that_breaks_a_promise_is_made_simpler_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("short.scenario").write_text(SHORT, encoding="utf-8")
    Path("quiet.scenario").write_text(QUIET, encoding="utf-8")
    short = ["run", "short.scenario", "--planted", BUG, "--shrink", "--json"]
    assert main([*short, "--dir", "run"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["verdict"] == "invalid"
    text = Path("run-smallest/smallest.scenario").read_text(encoding="utf-8")
    assert "wait operations 3" not in text
    assert "fails alike: invalid invariants" in printed.err
    assert f"upheaval shrink {tmp_path / 'run'} continues" in printed.err
    assert all(f"  {line}" in printed.err.splitlines() for line in text.splitlines())
    assert main(["run", "quiet.scenario", "--shrink", "--dir", "valid"]) in (0, 3)
    assert not Path("valid-smallest").exists()
    capsys.readouterr()
    Path("again-smallest").mkdir()
    for words, why in (
        ([*short, "--dir", "again"], "again-smallest exists: give another --dir"),
        (["run", "follower-offline", "--shrink"], "follower-offline is an exact script"),
    ):
        assert main(words) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert why in line
    assert not Path("again").exists()


def rewrite(file: Path, **changed: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text(encoding="utf-8")), **changed}), encoding="utf-8")


@pytest.mark.pure
def test_another_failure_than_that_of_the_run_is_not_shrunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after a fix: run again without its bug, the scenario only has too little load to judge."""
    monkeypatch.chdir(tmp_path)
    Path("short.scenario").write_text(SHORT, encoding="utf-8")
    assert main(["run", "short.scenario", "--planted", BUG, "--dir", "run"]) == 1
    quiet, broken = Fingerprint("unknown", "enough-traffic"), Fingerprint("invalid", "invariants", *WENT_BACK)
    again = as_recorded(Try((quiet, broken), digest="another"), "recorded", Path("run"))
    assert again.fingerprints == (broken, quiet), "another execution that fails alike"
    rewrite(Path("run/result.json"), planted=None)
    for command in ("shrink", "when"):
        capsys.readouterr()
        assert main([command, "run"]) == 3
        assert (
            "run failed with invalid invariants commit-went-back FOLLOWER CANVASS, but fails with unknown "
            in capsys.readouterr().err
        )


@pytest.mark.pure
def test_another_failure_than_that_of_the_seed_is_not_shrunk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "seed"
    assert keep_seed(SeedOrigin(1, BUG), folder).outcome.fingerprints[0].rule == Rule.COMMIT_WENT_BACK
    rewrite(folder / "seed.json", planted=OTHER_BUG)
    assert main(["shrink", str(folder), "--runs", "1"]) == 3
    assert "the node or the simulation has changed since" in capsys.readouterr().err


def test_what_cannot_be_made_simpler_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quiet.scenario").write_text(QUIET, encoding="utf-8")
    assert main(["run", "quiet.scenario", "--runtime", "process", "--dir", "none"]) == 2
    assert not Path("none").exists()
    assert main(["run", "quiet.scenario", "--dir", "run"]) in (0, 3)
    capsys.readouterr()
    Path("test").mkdir()
    write_made_by_test(Path("test"), MadeByTest("/here", ("pytest", "test_it.py")))
    assert main(["shrink", "test"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "its schedule is the test's code, which shrink cannot change" in line
    for command in ("replay", "when"):
        assert main([command, "test"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.endswith("a pytest test made test: replay it by `cd /here && pytest test_it.py`")
    Path("other").mkdir()
    Path("other/file").write_text("of somebody", encoding="utf-8")
    for words in (["shrink", "run", "--out", "run"], ["shrink", "run", "--out", "other"], ["shrink", "other"]):
        assert main(words) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
