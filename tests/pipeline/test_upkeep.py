"""What `upheaval lake` does: fewer files with the same rows, runs that are gone for good, older lakes migrated."""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from support.built_runs import good_run
from support.lakes import all_asked, as_of_another_version, asked, killed_at, table_files
from upheaval.cli.main import main
from upheaval.errors import EnvironmentFault, UsageError
from upheaval_pipeline import lake as lakes, upkeep
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.delta import append
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.lake import Lake, open_lake
from upheaval_pipeline.lake_file import File
from upheaval_pipeline.lake_files import files_of, write_file
from upheaval_pipeline.place import Place
from upheaval_pipeline.tables import LAKE_SCHEMAS, STORED, VERDICTS

COUNTS = "SELECT run, count(*) FROM history GROUP BY run ORDER BY run"


def built(folder: Path, run: str, count: int = 40) -> Path:
    made = good_run(count)
    made.manifest = replace(made.manifest, run_id=run)
    made.write(folder)
    return folder


def answers(lake: str) -> list[Any]:
    """What queries give that see every table."""
    tables = [*LAKE_SCHEMAS, "verdicts"]
    queries = [f"SELECT * FROM {table} ORDER BY ALL" for table in tables]
    return [answer.rows for answer in all_asked(lake, queries, 10_000)]


def bytes_of(lake: Path, text: str) -> list[Path]:
    """The files of rows, those that no table names any more too, that hold a text."""
    return [path for path in lake.rglob("*.parquet") if text in str(pq.read_table(path).to_pylist())]


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a lake of three runs, each of its own ingest, one of which was ingested again with more operations;
    and with the runs.
    """
    folder = tmp_path_factory.mktemp("ingested")
    for run in ("a", "b", "c"):
        ingest(None, [built(folder / run, run)], str(folder / "lake"))
    ingest(None, [built(folder / "b-again", "b", 60)], str(folder / "lake"))
    return folder


@pytest.fixture
def lake(ingested: Path, tmp_path: Path) -> Path:
    """A copy of that lake, beside copies of its runs."""
    shutil.copytree(ingested, tmp_path, dirs_exist_ok=True)
    return tmp_path / "lake"


def test_optimize_leaves_one_file_a_table_and_every_row_that_counts(lake: Path) -> None:
    before = answers(str(lake))
    assert len(table_files(lake, "history")) == 4
    assert main(["lake", "optimize", "--lake", str(lake)]) == 0
    opened = open_lake(str(lake))
    assert {table: len(files) for table, files in opened.tables.items() if files} == dict.fromkeys(
        ["runs", "history", "trace", "recording", "verdicts"], 1
    )
    assert answers(str(lake)) == before
    assert [file.rows for file in opened.tables["history"]] == [140]
    assert all(part.is_whole for table in opened.tables for part in opened.parts(table, opened.runs("runs")))


def test_who_opened_a_lake_before_it_was_compacted_reads_on(lake: Path) -> None:
    opened = open_lake(str(lake))
    columns = arrow_schema("run string, id long")
    before = opened.read("history", columns, ["a", "b"])
    upkeep.optimize(open_lake(str(lake)))
    assert opened.read("history", columns, ["a", "b"]) == before
    assert len(before) == 100


def test_what_is_written_meanwhile_is_neither_lost_nor_doubled(lake: Path, tmp_path: Path) -> None:
    first, second = open_lake(str(lake)), open_lake(str(lake))
    ingest(None, [built(tmp_path / "d", "d", 80)], str(lake))
    upkeep.optimize(first)
    upkeep.optimize(second)  # whose files are gone
    assert asked(str(lake), COUNTS, 9).rows == (("a", 40), ("b", 60), ("c", 40), ("d", 80))
    upkeep.optimize(open_lake(str(lake)))
    assert len(table_files(lake, "runs")) == 1
    assert asked(str(lake), COUNTS, 9).rows == (("a", 40), ("b", 60), ("c", 40), ("d", 80))


def test_a_dropped_run_is_in_no_file_any_more(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    upkeep.optimize(open_lake(str(lake)))  # which leaves the files of before for readers
    assert bytes_of(lake, "'run': 'b'")
    assert main(["lake", "drop", "--lake", str(lake), "--run", "b"]) == 0
    assert capsys.readouterr().out == "dropped b\n"
    assert bytes_of(lake, "'run': 'b'") == []
    assert bytes_of(lake, "'run': 'a'")
    assert asked(str(lake), COUNTS, 9).rows == (("a", 40), ("c", 40))
    assert asked(str(lake), "SELECT DISTINCT run FROM verdicts ORDER BY run", 9).rows == (("a",), ("c",))
    assert main(["lake", "drop", "--lake", str(lake), "--run", "b"]) == 2
    assert capsys.readouterr().err == f"upheaval: {lake} has no run 'b'\n"


def test_a_drop_that_is_killed_leaves_no_half_of_a_run(lake: Path, tmp_path: Path) -> None:
    killed_at("delta.py", "replace", "call", ["lake", "drop", "--lake", str(lake), "--run", "b"])
    assert asked(str(lake), COUNTS, 9).rows == (("a", 40), ("c", 40))
    assert open_lake(str(lake)).runs("runs") == ["a", "c"]
    ingest(None, [tmp_path / "b"], str(lake))
    assert asked(str(lake), COUNTS, 9).rows == (("a", 40), ("b", 40), ("c", 40))


def test_a_drop_leaves_rows_uncounted_that_an_ended_ingest_left(lake: Path) -> None:
    upkeep.optimize(open_lake(str(lake)))
    opened = open_lake(str(lake))
    paths = [file.path for file in opened.tables["history"]]
    rows = opened.dataset(paths, arrow_schema(LAKE_SCHEMAS["history"])).to_batches()
    opened.commit(files_of(write_file(str(lake), "history", opened.new_batch(), rows)))
    upkeep.drop(open_lake(str(lake)), ["c"])
    assert asked(str(lake), COUNTS, 9).rows == (("a", 40), ("b", 60))


def left_by_a_killed_ingest(lake: Path, folders: Sequence[Path], committed: Sequence[str] = ()) -> None:
    """All of its files are there, and those of some tables are committed."""
    other = lake.parent / "other"
    ingest(None, folders, str(other))
    for table, files in open_lake(str(other)).tables.items():
        for file in files:
            shutil.copy(other / file.path, lake / file.path)
        if table in committed:
            append(Place(str(lake)), table, arrow_schema(STORED[table]), files)


def test_a_drop_erases_what_a_killed_ingest_of_the_run_left(lake: Path, tmp_path: Path) -> None:
    left_by_a_killed_ingest(lake, [built(tmp_path / "b-later", "b", 80)])
    assert upkeep.drop(open_lake(str(lake)), ["b"]) == 0
    assert bytes_of(lake, "'run': 'b'") == []
    assert asked(str(lake), COUNTS, 9).rows == (("a", 40), ("c", 40))


@pytest.mark.parametrize("committed", [(), ("history", "trace")])
def test_a_run_of_which_only_a_killed_ingest_wrote_can_be_dropped(
    lake: Path, tmp_path: Path, committed: Sequence[str]
) -> None:
    left_by_a_killed_ingest(lake, [built(tmp_path / "d", "d")], committed)
    assert bytes_of(lake, "'run': 'd'")
    upkeep.drop(open_lake(str(lake)), ["d"])
    assert bytes_of(lake, "'run': 'd'") == []
    with pytest.raises(UsageError, match="has no run 'd'"):
        upkeep.drop(open_lake(str(lake)), ["d"])


def test_files_that_may_be_another_writers_stay_for_an_hour_and_are_counted(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left_by_a_killed_ingest(lake, [built(tmp_path / "b-later", "b", 80), built(tmp_path / "d", "d")])
    assert main(["lake", "drop", "--lake", str(lake), "--run", "b"]) == 0
    dropped, left = capsys.readouterr().out.splitlines()
    assert dropped == "dropped b"
    assert left.endswith("files that no ingest has committed may have rows of them: repeat the drop in an hour")
    assert bytes_of(lake, "'run': 'b'")
    for path in bytes_of(lake, "'run': 'b'"):
        os.utime(path, (1, 1))
    assert main(["lake", "drop", "--lake", str(lake), "--run", "b"]) == 0
    assert bytes_of(lake, "'run': 'b'") == []


def test_optimize_leaves_the_verdicts_of_an_ingest_that_goes_on(lake: Path, tmp_path: Path) -> None:
    left_by_a_killed_ingest(lake, [built(tmp_path / "d", "d")], ("history", "trace", "recording", "verdicts"))
    upkeep.optimize(open_lake(str(lake)))
    append(Place(str(lake)), "runs", arrow_schema(STORED["runs"]), open_lake(str(tmp_path / "other")).tables["runs"])
    assert asked(str(lake), "SELECT run FROM judged ORDER BY run", 9).rows == (("a",), ("b",), ("c",), ("d",))


def test_an_ingest_whose_files_a_drop_erased_commits_nothing(lake: Path) -> None:
    opened = open_lake(str(lake))
    rows = opened.dataset([opened.tables["history"][0].path], arrow_schema(LAKE_SCHEMAS["history"])).to_batches()
    files = files_of(write_file(str(lake), "history", opened.new_batch(), rows))
    (run,) = {run for file in files for run in file.runs}
    upkeep.drop(open_lake(str(lake)), [run])
    with pytest.raises(EnvironmentFault, match="is gone: its runs were dropped meanwhile; do it again"):
        opened.commit(files)
    assert open_lake(str(lake)).flaws == {}


def test_an_ingest_of_several_runs_of_which_one_is_dropped_on_the_way_is_done_again(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [built(tmp_path / "b-later", "b", 80), built(tmp_path / "d", "d")]
    drop_before_runs(lake, "b", monkeypatch)
    with pytest.raises(EnvironmentFault, match="was replaced meanwhile, as by a drop of its runs; do it again"):
        ingest(None, folders, str(lake))
    assert asked(str(lake), COUNTS, 9).rows == (("a", 40), ("c", 40))
    ingest(None, folders, str(lake))
    assert asked(str(lake), COUNTS, 9).rows == (("a", 40), ("b", 80), ("c", 40), ("d", 40))


def test_an_ingest_of_several_runs_between_whose_names_another_is_dropped_counts(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [built(tmp_path / "a-later", "a", 80), built(tmp_path / "d", "d")]
    drop_before_runs(lake, "b", monkeypatch)
    ingest(None, folders, str(lake))
    assert asked(str(lake), COUNTS, 9).rows == (("a", 80), ("c", 40), ("d", 40))
    assert bytes_of(lake, "'run': 'b'") == []


def drop_before_runs(lake: Path, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """During the next ingest: after it has committed the other tables, and before `runs`."""

    def dropping(place: Place, table: str, schema: pa.Schema, files: Sequence[File]) -> None:
        monkeypatch.undo()
        append(place, table, schema, files)
        upkeep.drop(open_lake(str(lake)), [run])

    # `verdicts` is the last one before `runs`.
    monkeypatch.setattr(lakes, "append", lambda *given: dropping(*given) if given[1] == "verdicts" else append(*given))


def test_info_and_ingest_say_when_a_lake_is_worth_compacting(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["lake", "info", "--lake", str(lake)]
    assert main(words) == 0
    assert "is due" not in capsys.readouterr().out
    monkeypatch.setattr(upkeep, "DUE_FILES", 4)
    assert main(words) == 0
    assert capsys.readouterr().out.endswith(f" files are small: `upheaval lake optimize --lake {lake}` is due\n")
    good_run(count=1).write(tmp_path / "more")
    ingested = ["ingest", str(tmp_path / "more"), "--lake", str(lake), "--engine", "python"]
    assert main(ingested) == 0
    assert capsys.readouterr().err.endswith(f" files are small: `upheaval lake optimize --lake {lake}` is due\n")
    upkeep.optimize(open_lake(str(lake)))
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["small_files"] == 0


def test_a_run_with_a_damaged_file_can_be_dropped(lake: Path) -> None:
    for table in ("runs", "trace", "verdicts"):
        (file,) = (lake / f.path for f in open_lake(str(lake)).tables[table] if f.runs == ("c", "c"))
        file.write_bytes(b"")
    upkeep.drop(open_lake(str(lake)), ["c"])
    assert asked(str(lake), COUNTS, 9).rows == (("a", 40), ("b", 60))
    assert open_lake(str(lake)).flaws == {}


@pytest.mark.parametrize("table", ["history", "verdicts"])
def test_a_damaged_file_keeps_its_other_runs_from_being_lost(table: str, lake: Path) -> None:
    upkeep.optimize(open_lake(str(lake)))
    (file,) = table_files(lake, table)
    file.write_bytes(b"")
    with pytest.raises(UsageError, match=f"{file.name} has 0 bytes.*: ingest its runs again, or drop them"):
        upkeep.drop(open_lake(str(lake)), ["c"])
    upkeep.drop(open_lake(str(lake)), ["a", "b"])
    assert open_lake(str(lake)).flaws == {}


def test_others_read_the_tables_by_their_format(lake: Path) -> None:
    """Before rows that were replaced are removed, by the batch in `runs`; after that as they are."""
    runs, history = (DeltaTable(str(lake / table)).to_pandas() for table in ("runs", "history"))
    last = runs.sort_values("batch").groupby("run").tail(1)
    assert len(history) == 180
    assert len(history.merge(last, on=["run", "batch"])) == 140
    upkeep.optimize(open_lake(str(lake)))
    assert len(DeltaTable(str(lake / "history")).to_pandas()) == 140


def test_only_what_this_judge_has_not_judged_is_judged(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["verify", "--lake", str(lake), "--new"]
    assert main(words) == 0
    assert capsys.readouterr().err == f"upheaval: this judge has judged all runs of {lake}\n"
    as_of_another_version(lake)
    ingest(None, [lake.parent / "a"], str(lake))
    assert main([*words, "--json"]) == 3
    judged = json.loads(capsys.readouterr().out)
    assert sorted(Path(report["run"]).name for report in judged) == ["b-again", "c"]
    assert main(words) == 0
    assert main(["verify", str(lake.parent / "a"), "--new"]) == 2
    assert "--new is for the runs of a lake: add --lake" in capsys.readouterr().err


def test_runs_end_by_their_age(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = good_run(40)
    made.manifest = replace(made.manifest, run_id="old", created="2020-01-01T10:00:00+00:00")
    made.write(tmp_path / "old")
    ingest(None, [tmp_path / "old"], str(lake))
    assert main(["lake", "drop", "--lake", str(lake), "--older-than", "90d", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"dropped": ["old"], "uncommitted_files": 0}
    assert main(["lake", "drop", "--lake", str(lake), "--older-than", "90d"]) == 0
    assert capsys.readouterr().out == "nothing is that old\n"
    assert open_lake(str(lake)).runs("runs") == ["a", "b", "c"]
    for words in ([], ["--run", "a", "--older-than", "1d"]):
        assert main(["lake", "drop", "--lake", str(lake), *words]) == 2
        assert "name runs with --run, or an age with --older-than, and not both" in capsys.readouterr().err


def test_the_age_of_a_run_without_a_time_is_that_of_its_first_ingest(lake: Path) -> None:
    as_of_another_version(lake, ingested="2020-01-01T10:00:00+00:00", ingested_by="0.9")
    ingest(None, [lake.parent / "a"], str(lake))
    assert upkeep.older_than(open_lake(str(lake)), 90) == ["a", "b", "c"]


def test_info_counts_files_and_rows(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lake", "info", "--lake", str(lake), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["runs"], facts["campaigns"]) == (3, 0)
    (history,) = (table for table in facts["tables"] if table["table"] == "history")
    assert (history["files"], history["rows"]) == (4, 40 * 3 + 60)
    assert history["bytes"] == sum(path.stat().st_size for path in table_files(lake, "history"))
    assert main(["lake", "info", "--lake", str(lake)]) == 0
    assert capsys.readouterr().out.startswith("3 runs and 0 campaigns, ingested from 20")


@pytest.mark.parametrize("table", ["trace", "runs", "verdicts"])
def test_a_damaged_file_is_named_and_not_compacted(table: str, lake: Path, tmp_path: Path) -> None:
    (file,) = (lake / f.path for f in open_lake(str(lake)).tables[table] if f.runs == ("c", "c"))
    file.write_bytes(b"")
    with pytest.raises(UsageError, match=f"{file.name} has 0 bytes"):
        upkeep.optimize(open_lake(str(lake)))
    ingest(None, [tmp_path / "c"], str(lake))
    upkeep.optimize(open_lake(str(lake)))
    assert asked(str(lake), COUNTS, 9).rows == (("a", 40), ("b", 60), ("c", 40))


def old_lake(where: Path, commits: Sequence[tuple[str, dict[str, int], str]]) -> None:
    """As before there were Delta tables: by commit its batch, how many operations its runs have, and one that cannot
    be read.
    """
    schemas = {**LAKE_SCHEMAS, "verdicts": VERDICTS}
    (where / "commits").mkdir(parents=True)
    for number, (batch, operations, unreadable) in enumerate(commits, start=1):
        values: dict[str, list[dict[str, Any]]] = {
            "runs": [{"run": run, "folder": f"/runs/{run}", "created": ""} for run in operations],
            "history": [{"run": run, "id": op} for run, count in operations.items() for op in range(count)],
            "verdicts": [{"run": run, "run_verdict": "valid", "number": 0, "verdict": "valid"} for run in operations],
        }
        files = []
        for table, rows in values.items():
            path = where / table / f"batch={batch}" / "0.parquet"
            path.parent.mkdir(parents=True)
            pq.write_table(pa.Table.from_pylist(rows, arrow_schema(schemas[table])), path, write_page_checksum=True)
            counts = {run: sum(row["run"] == run for row in rows) for run in operations}
            files.append({"table": table, "name": path.name, "size": path.stat().st_size, "rows": counts})
        entries = [
            {"run": run, "contents": f"{run}{batch} old", "rows": {"history": n}} for run, n in operations.items()
        ]
        if unreadable:
            entries.append({"run": unreadable, "contents": "x old", "rows": {}, "unreadable": "no manifest"})
        commit = {"format": 1, "batch": batch, "tables": [*schemas], "runs": entries, "files": files}
        (where / "commits" / f"{number:08}-{batch}.json").write_text(json.dumps(commit))


def test_an_older_lake_is_migrated_by_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = tmp_path / "lake"
    old_lake(lake, [("1", {"a": 3, "b": 4}, ""), ("2", {"b": 5}, "z")])
    assert main(["query", "SELECT 1", "--lake", str(lake)]) == 2
    assert f"`upheaval lake migrate --lake {lake}`" in capsys.readouterr().err
    of_others = [lake / "runs" / "7" / "history.jsonl", lake / "batch=7" / "notes", lake / "trace" / "notes"]
    for path in of_others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    killed = lake / "history" / f"{'0' * 32}-{'0' * 8}.parquet"
    killed.touch()
    assert main(["lake", "migrate", "--lake", str(lake)]) == 0
    assert capsys.readouterr().out == "3 runs and campaigns migrated\n"
    assert asked(str(lake), COUNTS, 9).rows == (("a", 3), ("b", 5))
    assert asked(str(lake), "SELECT run, verdict FROM judged ORDER BY run", 9).rows == (("a", "valid"), ("b", "valid"))
    assert asked(str(lake), "SELECT run, reason FROM rejects", 9).rows == (("z", "no manifest"),)
    entry = Lake(str(lake)).entry("runs", "b")
    assert entry is not None
    assert (entry.contents, entry.made_by, dict(entry.rows)) == ("b2", "old", {"history": 5})
    left = [path.relative_to(lake).parts[0] for path in lake.rglob("*") if path.is_file() and "batch=" in str(path)]
    assert (left, (lake / "commits").exists(), killed.exists()) == (["batch=7"], False, False)
    assert all(path.exists() for path in of_others)
    assert main(["lake", "migrate", "--lake", str(lake)]) == 2
    assert "is not a lake of an older version" in capsys.readouterr().err


def test_a_migration_that_was_ended_while_it_removed_the_old_files_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, old = tmp_path / "lake", tmp_path / "old"
    for where in (lake, old):
        old_lake(where, [("1", {"a": 3, "b": 4}, ""), ("2", {"b": 5}, "")])
    assert main(["lake", "migrate", "--lake", str(lake)]) == 0
    for left in ("commits/00000002-2.json", "history/batch=2/0.parquet"):
        (lake / left).parent.mkdir(exist_ok=True)
        (lake / left).write_bytes((old / left).read_bytes())
    (lake / "commits" / "written").touch()
    capsys.readouterr()
    assert main(["lake", "migrate", "--lake", str(lake)]) == 0
    assert capsys.readouterr().out == "2 runs and campaigns migrated\n"
    assert asked(str(lake), COUNTS, 9).rows == (("a", 3), ("b", 5))
    assert not (lake / "commits").exists()


def test_an_older_lake_with_a_damaged_file_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = tmp_path / "lake"
    old_lake(lake, [("1", {"a": 3}, "")])
    file = lake / "history" / "batch=1" / "0.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    assert main(["lake", "migrate", "--lake", str(lake)]) == 2
    assert f"{file} is gone or truncated" in capsys.readouterr().err
    file.write_bytes(whole)
    assert main(["lake", "migrate", "--lake", str(lake)]) == 0
    assert asked(str(lake), COUNTS, 9).rows == (("a", 3),)
