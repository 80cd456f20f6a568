"""A lake in an object store: a local S3 server has it, and two processes write at once. Spark reads it at night."""

import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from support.built_runs import good_run
from support.lakes import asked, killed_at
from upheaval.cli.main import main
from upheaval_pipeline.delta import snapshot
from upheaval_pipeline.engines import chosen_for
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.lake import open_lake
from upheaval_pipeline.place import Place
from upheaval_pipeline.session import store_client
from upheaval_pipeline.upkeep import drop, optimize

LAKE = "s3://bucket/lakes/month"
COUNTS = "SELECT run, count(*) FROM history GROUP BY run ORDER BY run"
OF_STORE = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty bucket, and the variables by which it is reached, also in processes that a test starts."""
    app = one_at_a_time(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.port}"
    for name, value in {**OF_STORE, "AWS_ENDPOINT_URL": address}.items():
        monkeypatch.setenv(name, value)
    for path, method in (("/moto-api/reset", "POST"), ("/bucket", "PUT")):
        urllib.request.urlopen(urllib.request.Request(address + path, method=method)).close()
    yield
    server.shutdown()
    thread.join()


def one_at_a_time(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """An app that answers one request at a time: moto looks for a key and writes it in two steps, a store in one."""
    lock = threading.Lock()

    def answer(*request: Any) -> Iterable[bytes]:
        with lock:
            return app(*request)

    return answer


def built(folder: Path, run: str, count: int = 40) -> Path:
    made = good_run(count)
    made.manifest = replace(made.manifest, run_id=run)
    made.write(folder)
    return folder


def begun(*words: str) -> "subprocess.Popen[str]":
    """A command in a process of its own."""
    program = "import sys; from upheaval.cli.main import main; sys.exit(main(sys.argv[1:]))"
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=settings)


def test_two_processes_that_ingest_at_once_lose_nothing(tmp_path: Path) -> None:
    """The second address is the same place, as Hadoop names it."""
    runs = [[built(tmp_path / run, run) for run in names] for names in (["a", "b"], ["c", "d"])]
    lakes = (LAKE, LAKE.replace("s3://", "s3a://"))
    writers = [
        begun("ingest", *map(str, folders), "--lake", lake, "--engine", "python")
        for folders, lake in zip(runs, lakes, strict=True)
    ]
    printed = [writer.communicate()[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0], printed
    assert asked(LAKE, COUNTS, 9).rows == tuple((run, 40) for run in "abcd")


def test_a_lake_in_a_store_is_written_judged_compacted_and_erased(tmp_path: Path) -> None:
    ingest(None, [built(tmp_path / "a", "a"), built(tmp_path / "b", "b")], LAKE)
    new = built(tmp_path / "new", "a", 60)
    killed_at("delta.py", "append", "return", ["ingest", str(new), "--lake", LAKE, "--engine", "python"], time=4)
    assert asked(LAKE, COUNTS, 9).rows == (("a", 40), ("b", 40))
    ingest(None, [new], LAKE)
    assert main(["verify", "--lake", LAKE, "--run", "b"]) == main(["verify", str(tmp_path / "b")])
    optimize(open_lake(LAKE))
    drop(open_lake(LAKE), ["b"])
    assert asked(LAKE, COUNTS, 9).rows == (("a", 60),)
    # The killed ingest left one of its own, which could still be committed.
    assert {file.runs for file in snapshot(Place(LAKE), "verdicts")} == {("a", "a")}


def test_a_place_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "SELECT 1", "--lake", "s3://nobucket/lake"]) == 2
    assert main(["query", "SELECT 1", "--lake", "nothing://bucket/lake"]) == 2
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 2
    assert "s3://nobucket/lake/runs is damaged or cannot be read: " in printed.err
    assert "nothing://bucket/lake is not a lake: " in printed.err


def test_a_lake_above_memory_goes_to_spark_where_that_has_a_client_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(None, [built(tmp_path / "a", "a")], LAKE)
    for settings, engine in (("", "duckdb"), (store_client(), "spark")):
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", settings)
        choice = chosen_for(open_lake(LAKE), [COUNTS], "auto", None, limit=1)
        assert choice.engine == engine
        assert (f"no client of S3: set PYSPARK_SUBMIT_ARGS='{store_client()}'" in choice.why) == (engine == "duckdb")


@pytest.mark.nightly
def test_spark_reads_it_with_hadoops_client_and_says_where_that_is_to_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a drop and a compaction, as DuckDB and pandas do."""
    for run, count in (("a", 40), ("dropped", 50), ("b", 60)):
        ingest(None, [built(tmp_path / run, run, count)], LAKE)

    def upkeep(*words: str) -> Any:
        assert main(["lake", *words, "--lake", LAKE, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    dropped, compacted, info = upkeep("drop", "--run", "dropped"), upkeep("optimize"), upkeep("info")
    assert dropped["dropped"] == ["dropped"]
    assert compacted["files"] == len(info["tables"]) < compacted["files_before"]
    assert {one["table"]: one["rows"] for one in info["tables"]}["history"] == 100
    counts = [{"run": "a", "n": 40}, {"run": "b", "n": 60}]
    table = DeltaTable(f"{LAKE}/history", storage_options=Place(LAKE).delta_options)
    assert table.to_pandas().groupby("run").size().to_dict() == {one["run"]: one["n"] for one in counts}
    words = ["query", "SELECT run, count(*) AS n FROM history GROUP BY run ORDER BY run", "--lake", LAKE, "--json"]
    without = begun(*words, "--engine", "spark")
    printed, _ = without.communicate()
    assert (without.returncode, printed.count("\n")) == (2, 1)
    assert f"no client of S3: set PYSPARK_SUBMIT_ARGS='{store_client()}'" in printed
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", store_client())
    reader = begun(*words, "--engine", "spark")
    printed, _ = reader.communicate()
    assert reader.returncode == 0, printed
    assert [json.loads(line) for line in printed.splitlines()] == counts
    assert main([*words, "--engine", "duckdb"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == counts
