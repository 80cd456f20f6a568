"""Labels: one command finds the commit that made runs slow, and the one that made them fail. Starts no Spark."""

import json
import re
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

import pytest

from support.built_runs import good_run, operation_index
from support.lakes import as_of_another_version, asked, damage_page, table_files
from support.run_rows import RunRows, engine_with, rows_of
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.cli.main import main
from upheaval.records import Outcome
from upheaval.records.labels import LABELS_FILE, OF_CI, OF_RUNS, LabelsOfIngest, labels_of, write_labels
from upheaval.runtime_names import SIMULATED
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.lake_files import files_of, write_file
from upheaval_pipeline.lake_place import LakePlace
from upheaval_pipeline.tables import HISTORY, STORED, batches
from upheaval_pipeline.verdicts import verdict_rows
from upheaval_pipeline.version import reader_version

MS = 1_000_000
COMMITS = ["a1", "f2", "b3", "e4", "c5"]
RUNS_OF_A_COMMIT = 4
SLOW_SINCE, FLAKY_SINCE = 2, 3
BAD = "2 operations in slot 7 twice"
UNKNOWN_WITH_ONE_RUN = {
    "changes": "too few runs to compare: no label has 3 runs",
    "compare": "no two values of a label",
    "regressions": "no scenario or campaign that was judged on two versions;",
}


def write_lake(where: Path, *, slow_ms: int, is_flaky: bool) -> str:
    """Twenty runs of a scenario on five commits, which do not follow each other by name."""
    runs, history, judged = [], [], {}
    for number in range(len(COMMITS) * RUNS_OF_A_COMMIT):
        commit, run = number // RUNS_OF_A_COMMIT, f"run-{number}"
        manifest = json.dumps({"system": "upheaval", "version": "", "source_digest": "c0de" if commit else "0ld"})
        made = (run, f"/runs/{number}", "simulated", 3, "test", 1, number, "", "", True, manifest, "[]", "bank")
        ingested = [("commit", COMMITS[commit])], f"2026-11-{number + 1:02}T10:00:00+00:00", "1.0"
        runs.append((*made, *ingested, "made", reader_version(), None, [("runs", 1), ("history", 20)]))
        latency = (20 + number % 3 + slow_ms * (commit >= SLOW_SINCE)) * MS
        for op in range(20):
            begin = op * 50 * MS
            history.append((run, op, op, 0, "write", "k", "1", begin, begin + latency, "ok", "1", op, 0, None))
        bad = is_flaky and commit >= FLAKY_SINCE and number % 4 != 1
        verdict = Verdict.INVALID if bad else Verdict.VALID
        judged[run] = Report(f"/runs/{number}", (Finding(Promise("logs-equal"), verdict, BAD if bad else "equal"),))
    lake = Lake(str(where))
    batch = lake.new_batch()
    columns = arrow_schema(STORED["runs"].removesuffix(", batch string"))
    written = write_file(str(where), "runs", batch, batches(runs, columns))
    written += write_file(str(where), "history", batch, batches(history, arrow_schema(HISTORY)))
    written += write_file(str(where), "verdicts", batch, verdict_rows(judged, dict.fromkeys(judged, "made"), {}))
    lake.commit(files_of(written))
    return str(where)


def test_the_commits_of_a_slowdown_and_a_flake_are_found_by_one_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = write_lake(tmp_path / "lake", slow_ms=15, is_flaky=True)
    assert main(["ask", "--fail-if", "changes", "--lake", lake, "--json", "--engine", "duckdb"]) == 1
    printed = capsys.readouterr()
    assert printed.err == "upheaval: changes: 3 of 3 rows are bad news (--fail-if)\n"
    rows = [json.loads(line) for line in printed.out.splitlines()]
    worse = {row["what"]: row for row in rows if row["label"] == "commit"}
    slow, flaky = worse["latency without faults, ms"], worse["not valid"]
    assert (slow["value"], slow["base_runs"], slow["runs"]) == (COMMITS[SLOW_SINCE], 8, 12)
    assert slow["lowest"] < slow["difference"] < slow["highest"]
    assert slow["difference"] == pytest.approx(15, abs=1)
    assert (flaky["value"], flaky["base_level"], flaky["level"]) == (COMMITS[FLAKY_SINCE], 0, 0.75)
    assert flaky["lowest"] > 0
    # The service's code changed once, at the second commit.
    assert [row["what"] for row in rows if row["label"] == "service"] == [slow["what"]]
    ((commits, first, last),) = asked(lake, "SELECT commits, first, last FROM signatures", 9).rows
    assert (commits, first[:10], last[:10]) == (["c5", "e4"], "2026-11-13", "2026-11-20")
    trend = asked(lake, "SELECT value, runs, level FROM trend WHERE what = 'not valid' AND label = 'commit'", 99).rows
    assert sorted(trend) == [("a1", 4, 0), ("b3", 4, 0), ("c5", 4, 0.75), ("e4", 4, 0.75), ("f2", 4, 0)]


def write_run(folder: Path, number: int, *, is_slow: bool, has_lost: bool, service_digest: str) -> None:
    """A run of a service whose answers take some ms, up to 15 more, and which may lose an acknowledged operation."""
    built = good_run(150, seed=number)
    late = 15 * MS if is_slow else 0
    built.operations = [
        replace(
            one,
            process=one.id,
            invoke_ns=one.invoke_ns * 10_000,
            complete_ns=one.complete_ns and one.complete_ns * 10_000 + late,
        )
        for one in built.operations
    ]
    if has_lost:
        lost = built.operations[operation_index(built, lambda one: one.outcome is Outcome.OK, after=20)]
        built.payloads = [[one for one in log if lost.id.to_bytes(8, "little") not in one] for log in built.payloads]
    built.manifest = replace(built.manifest, run_id=f"run-{number}", source_digest=service_digest)
    built.write(folder)


@pytest.mark.nightly
def test_a_slower_and_flaky_version_of_a_service_is_found_in_200_runs_with_its_commit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second version of the service comes with the third of four commits; it loses something in every fifth run."""
    lake, commits = str(tmp_path / "lake"), ["c0ffee1", "a11ce22", "badc0de", "0ddba11"]
    for number in range(200):
        is_new = number >= 100
        where = tmp_path / commits[number // 50] / str(number)
        write_run(where, number, is_slow=is_new, has_lost=is_new and number % 5 == 0, service_digest=f"v{1 + is_new}")
    for commit in commits:
        runs = sorted(map(str, (tmp_path / commit).iterdir()))
        assert main(["ingest", *runs, "--lake", lake, "--engine", "python", "--label", f"commit={commit}"]) == 0
    capsys.readouterr()
    assert main(["ask", "--fail-if", "changes", "--lake", lake, "--json"]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    worse = {(row["what"], row["label"]): (row["value"], row["base_runs"], row["runs"]) for row in rows}
    since = {"commit": "badc0de", "service": "v2"}
    assert worse == {
        (what, label): (value, 100, 100)
        for what in ("latency without faults, ms", "not valid")
        for label, value in since.items()
    }
    assert {row["level"] for row in rows if row["what"] == "not valid"} == {0.2}


def test_what_did_not_become_worse_is_no_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = write_lake(tmp_path / "lake", slow_ms=1, is_flaky=False)
    assert main(["ask", "--fail-if", "changes", "--fail-if", "failures", "--lake", lake]) == 0
    assert capsys.readouterr().out.count("nothing: ") == 2


def test_a_lake_keeps_labels_time_and_version_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in {name for names in OF_CI.values() for name in names}:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GITHUB_SHA", "4f2a91c")
    monkeypatch.setenv("GITHUB_REF_NAME", "main")
    good_run(40).write(tmp_path / "run")
    lake = str(tmp_path / "lake")
    words = ["--label", "branch=topic", "--label", "team=money=matters"]
    assert main(["ingest", str(tmp_path / "run"), "--lake", lake, "--engine", "python", *words]) == 0
    ((labels, has_time, has_version),) = asked(
        lake, "SELECT labels, created LIKE '20__-__-__T%', length(version) > 0 FROM ran", 9
    ).rows
    assert labels == {"commit": "4f2a91c", "branch": "topic", "team": "money=matters"}
    assert (has_time, has_version) == (True, True)
    capsys.readouterr()
    other = ["--label", "team=other"]
    assert main(["ingest", str(tmp_path / "run"), "--lake", lake, "--engine", "python", *other]) == 0
    unchanged = "upheaval: all of it is in the lake already; its runs keep the labels that they have\n"
    assert capsys.readouterr().err == unchanged
    good_run(41).write(tmp_path / "more")
    manifest = tmp_path / "more" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("run-1", "run-2"))
    folders = [str(tmp_path / "run"), str(tmp_path / "more")]
    assert main(["ingest", *folders, "--lake", lake, "--engine", "python", *other]) == 0
    assert "1 of 2 runs are in the lake already and keep the labels that they have\n" in capsys.readouterr().err
    rows = asked(lake, "SELECT run, labels FROM ran ORDER BY run", 9).rows
    assert [(run, dict(labels)["team"]) for run, labels in rows] == [("run-1", "money=matters"), ("run-2", "other")]


def test_a_run_that_another_version_reads_again_keeps_labels_time_and_version(tmp_path: Path) -> None:
    good_run(40).write(tmp_path / "run")
    lake = str(tmp_path / "lake")
    ingest(None, [tmp_path / "run"], lake, labels=LabelsOfIngest({"branch": "main"}, {"commit": "monday"}))
    as_of_another_version(tmp_path / "lake", ingested="2026-11-02T03:00:00+00:00", ingested_by="0.9")
    lines: list[str] = []
    friday = LabelsOfIngest({"branch": "topic"}, {"commit": "friday"})
    ingest(None, [tmp_path / "run"], lake, lines.append, friday)
    ((labels, created, version),) = asked(lake, "SELECT labels, created, version FROM ran", 9).rows
    assert (labels, created, version) == (
        {"branch": "main", "commit": "monday"},
        "2026-11-02T03:00:00+00:00",
        "0.9",
    )
    assert lines == ["1 of 1 runs are read again and keep the labels that they have", "1 of 1 runs ingested"]


@pytest.mark.parametrize("column", ["labels", "ingested"])
def test_labels_that_cannot_be_read_hinder_no_ingest(column: str, tmp_path: Path) -> None:
    run = good_run(40).write(tmp_path / "run")
    lake = str(tmp_path / "lake")
    ingest(None, [run.path], lake, labels=LabelsOfIngest({"branch": "main"}, {}))
    damage_page(table_files(tmp_path / "lake", "runs")[0], column)
    (run.path / "more.txt").write_text("changed")
    lines: list[str] = []
    ingest(None, [run.path], lake, lines.append, LabelsOfIngest({"branch": "topic"}, {}))
    lost = "labels and first ingest of 1 of 1 runs cannot be read from the lake and are lost"
    assert lines == [lost, "1 of 1 runs ingested"]
    assert asked(lake, "SELECT labels['branch'] FROM runs", 9).rows == (("topic",),)


def test_simulated_runs_of_two_commits_are_two_runs_although_they_executed_alike(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    for commit in ("a1", "b2", ""):
        built = good_run(40)
        built.manifest = replace(built.manifest, runtime=SIMULATED, run_id="simulated-7-c0ffee")
        built.write(tmp_path / commit / "run")
        write_labels(tmp_path / commit / "run", {"commit": commit} if commit else {})
    folders = [tmp_path / commit / "run" for commit in ("a1", "b2", "")]
    ingest(None, folders, lake)
    ingest(None, folders[:2], lake)
    rows = sorted(asked(lake, "SELECT run, coalesce(labels['commit'], '') FROM ran", 9).rows, key=itemgetter(1))
    assert [commit for _, commit in rows] == ["", "a1", "b2"]
    assert rows[0][0] == "simulated-7-c0ffee"
    assert all(re.fullmatch("simulated-7-c0ffee-[0-9a-f]{8}", run) for run, _ in rows[1:])
    counts = asked(lake, "SELECT run, count(*) FROM history GROUP BY run", 9).rows
    assert sorted(counts) == [(run, 40) for run, _ in sorted(rows)]
    place = LakePlace(lake)
    assert [place.path(run) for run, _ in rows] == [folders[2], *folders[:2]]


def test_an_ingest_says_whose_runs_it_replaces(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    for commit in ("a1", "b2"):
        for number in range(3):
            folder = tmp_path / commit / str(number)
            write_run(folder, number, is_slow=False, has_lost=False, service_digest="")
            write_labels(folder, {"commit": commit, "branch": "main"})
    lines: list[str] = []
    ingest(None, sorted((tmp_path / "a1").iterdir()), lake, lines.append)
    ingest(None, sorted((tmp_path / "b2").iterdir())[1:], lake, lines.append)
    lost = "runs of the same ids replace those of commit=a1 (2)"
    assert lines == ["3 of 3 runs ingested", lost, "2 of 2 runs ingested"]
    assert sorted(asked(lake, "SELECT labels['commit'] FROM ran", 9).rows) == [("a1",), ("b2",), ("b2",)]


def test_labels_are_read_before_anything_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good_run(40).write(tmp_path / "run")
    (tmp_path / "run" / LABELS_FILE).write_text('{"commit": 4}')
    words = ["ingest", str(tmp_path / "run"), "--lake", str(tmp_path / "lake"), "--engine", "python"]
    assert main(words) == 2
    assert f"{LABELS_FILE}: expected a text for each label" in capsys.readouterr().err
    assert not (tmp_path / "lake").exists()
    (tmp_path / "run" / LABELS_FILE).unlink()
    assert main([*words, "--label", "branch=\udcff"]) == 0
    ((labels,),) = asked(str(tmp_path / "lake"), "SELECT labels FROM ran", 9).rows
    assert labels["branch"] == r"\udcff"


def test_the_first_variable_of_ci_that_is_set_counts() -> None:
    assert labels_of([], {"GITHUB_HEAD_REF": "", "GITHUB_REF_NAME": "main", "CI_COMMIT_SHA": "12"}) == {
        "branch": "main",
        "commit": "12",
    }
    assert labels_of([("commit", "mine")], {"GIT_COMMIT": "theirs"}) == {"commit": "mine"}


@pytest.mark.parametrize("words", ["commit", "commit=", "=12", "a-b=1"])
def test_a_label_is_a_name_and_a_value(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["ingest", "run", "--lake", "lake", "--label", words])
    assert f"expected NAME=VALUE, such as commit=4f2a91c, got {words!r}" in capsys.readouterr().err


@pytest.mark.parametrize("name", OF_RUNS)
def test_no_label_has_the_name_of_what_a_run_is_compared_by(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["ingest", "run", "--lake", "lake", "--label", f"{name}=2"])
    assert f"a run has a {name} of its own: give the label {name!r} another name" in capsys.readouterr().err
    with engine_with([RunRows("one", labels={name: "2", "commit": "f2"})]) as engine:
        labels = [(row["label"], row["value"]) for row in rows_of(engine, "labelled")]
    assert sorted(labels) == [("commit", "f2"), ("version", "1")]


def test_a_comparison_of_what_no_run_has_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = write_lake(tmp_path / "lake", slow_ms=0, is_flaky=False)
    ask = ["ask", "compare", "--fail-if", "compare", "--lake", lake, "--engine", "duckdb", "--between"]
    assert main([*ask, "commit=a1..nowhere"]) == 2
    assert capsys.readouterr().err == f"upheaval: no run of {lake} has the label commit=nowhere (--between)\n"
    assert main([*ask, "commit=a1..f2"]) == 0
    good_run(40).write(tmp_path / "run")
    ingest(None, [tmp_path / "run"], lake, labels=LabelsOfIngest(named={"commit": "d4"}))
    assert main([*ask, "commit=a1..d4"]) == 3  # which are of no common scenario
    assert "upheaval: compare: unknown: no two values of a label" in capsys.readouterr().err


def test_a_gate_over_nothing_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good_run(0).write(tmp_path / "run")
    ingest(None, [tmp_path / "run"], str(tmp_path / "lake"))
    ask = ["ask", "--lake", str(tmp_path / "lake"), "--engine", "duckdb", "--fail-if"]
    assert main([*ask, "slo"]) == 3
    assert capsys.readouterr().err == "upheaval: slo: unknown: no run with requests (--fail-if)\n"
    assert main([*ask, "changes", "--fail-if", "compare", "--fail-if", "regressions"]) == 3
    lines = sorted(capsys.readouterr().err.splitlines())
    assert len(lines) == len(UNKNOWN_WITH_ONE_RUN)
    for line, (name, why) in zip(lines, UNKNOWN_WITH_ONE_RUN.items(), strict=True):
        assert line.startswith(f"upheaval: {name}: unknown: {why}")


@pytest.mark.parametrize("at_once", [False, True])
def test_a_gate_over_too_few_runs_of_two_commits_is_unknown(
    at_once: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two runs of each: enough to compare the commits, and too few to find since when."""
    created = {"a": "2026-11-01", "b": "2026-11-01" if at_once else "2026-11-02"}
    for number, commit in enumerate("aabb"):
        write_run(tmp_path / str(number), number, is_slow=False, has_lost=commit == "b", service_digest="")
        write_labels(tmp_path / str(number), {"commit": commit})
        manifest = tmp_path / str(number) / "manifest.json"
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "created": created[commit]}))
    lake = str(tmp_path / "lake")
    ingest(None, [tmp_path / str(number) for number in range(4)], lake)
    ask = ["ask", "--lake", lake, "--engine", "duckdb", "--fail-if"]
    assert main([*ask, "changes"]) == 3
    assert "upheaval: changes: unknown: too few runs to compare: no label has 3 runs" in capsys.readouterr().err
    assert main([*ask, "compare"]) == (3 if at_once else 1)
    assert main([*ask, "compare", "--between", "commit=a..b"]) == 1


def test_a_run_that_cannot_be_judged_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = str(tmp_path / "lake")
    good, bad = good_run(40).write(tmp_path / "good").path, good_run(41).write(tmp_path / "bad").path
    (bad / "manifest.json").write_text("{")
    ingested = ["ingest", str(good), str(bad), "--lake", lake, "--engine", "python"]
    why = f"upheaval: 1 run cannot be judged: `upheaval verify --lake {lake}` says why\n"
    for _ in range(2):  # the second time all of it is there
        assert main(ingested) == 2
        assert capsys.readouterr().err.endswith(why)
    assert main(["ingest", str(good), "--lake", lake]) == 0
    for name, status in (("flakes", 3), ("failures", 1)):
        assert main(["ask", "--lake", lake, "--engine", "duckdb", "--fail-if", name]) == status
        assert why in capsys.readouterr().err
    assert main(["ask", "flakes", "--lake", lake, "--engine", "duckdb"]) == 0
