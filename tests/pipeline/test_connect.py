"""The jobs on a server of Spark Connect, whose Python has none of our packages but what we send along.

Each command is a process of its own: one that was a client of Spark Connect can have no other Spark.
"""

import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support.built_locks import locks_run
from support.built_runs import good_run
from support.lakes import as_of_another_version, asked, table_files
from support.spark_commands import bare_python, environment, upheaval
from support.spark_master import HOST, connect_server
from upheaval.campaign.campaign import line_of
from upheaval.campaign.seed import try_seed
from upheaval.campaign.seed_lines import SEEDS_FILE
from upheaval.checkers.judge import verify_run
from upheaval.cli.main import main

TABLES = ("runs", "history", "faults", "trace", "recording", "rejects", "judged")
Command = Callable[..., str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a server, and the environment in which it runs."""
    folder = tmp_path_factory.mktemp("connect")
    (folder / "tmp").mkdir()
    settings = environment(bare_python(folder / "python"), folder)
    with connect_server(folder, settings) as address:
        yield address, settings


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """One is good, one lost an operation, and one has a model that is on this machine alone."""
    folder = tmp_path_factory.mktemp("runs")
    built = {"good": good_run(), "lost": good_run(seed=2), "own": locks_run("fenced_model:Locks")}
    del built["lost"].payloads[1][60]
    for name, run in built.items():
        run.manifest = replace(run.manifest, run_id=name)
        run.write(folder / name)
    return [str(folder / name) for name in built]


@pytest.fixture
def on_server(server: tuple[str, dict[str, str]], tmp_path: Path) -> Command:
    """Runs a command there, which leaves nothing here; its output."""
    address, settings = server
    (tmp_path / "tmp").mkdir()
    client = {**settings, "TMPDIR": str(tmp_path / "tmp"), "JAVA_HOME": str(tmp_path)}  # no Java is here

    def run(*words: str, status: int = 0) -> str:
        done = upheaval(*words, "--master", address, settings=client)
        assert done.returncode == status, done.stderr
        assert list((tmp_path / "tmp").iterdir()) == []
        return done.stdout

    return run


def rows(lake: str, table: str) -> list[str]:
    answer = asked(lake, f"SELECT * FROM {table}", 99_999)
    times = [place for place, name in enumerate(answer.columns) if name == "ingested"]
    return sorted(repr([value for place, value in enumerate(row) if place not in times]) for row in answer.rows)


def change_unseen(file: Path) -> None:
    """Change a byte that makes other rows and no error where checksums of pages are not verified."""
    content, read = file.read_bytes(), pq.read_table(file)
    for place in range(len(content)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            if pq.read_table(file) != read:
                return
        except OSError:
            continue
    raise AssertionError(f"no such byte in {file}")


@pytest.mark.nightly
def test_runs_are_judged_and_measured_as_here(
    runs: list[str], on_server: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    judged = on_server("verify", *runs, "--engine", "spark", "--json", status=1)
    assert json.loads(judged) == json.loads(json.dumps([verify_run(run).to_fields() for run in runs]))
    assert main(["measure", *runs, "--json"]) == 0
    assert on_server("measure", *runs, "--engine", "spark", "--json") == capsys.readouterr().out


def test_a_lake_is_written_and_asked_as_here(
    runs: list[str], on_server: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, expected = str(tmp_path / "lake"), str(tmp_path / "expected")
    assert main(["ingest", *runs, "--lake", expected, "--engine", "python", "--json"]) == 0
    assert on_server("ingest", *runs, "--lake", lake, "--json") == capsys.readouterr().out
    for table in TABLES:
        assert rows(lake, table) == rows(expected, table)
    query = ["query", "SELECT * FROM history", "--lake", lake, "--engine", "spark", "--json", "--limit", "99999"]
    assert {json.loads(line)["run"] for line in on_server(*query).splitlines()} == {"good", "lost", "own"}
    change_unseen(table_files(Path(lake), "history")[0])
    on_server(*query, status=2)


@pytest.mark.nightly
def test_a_lake_is_judged_and_measured_as_here(
    runs: list[str], on_server: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = str(tmp_path / "lake")
    assert main(["ingest", *runs, "--lake", lake, "--engine", "python"]) == 0
    capsys.readouterr()
    assert main(["verify", "--lake", lake, "--json"]) == 1
    as_of_another_version(Path(lake))  # whose verdicts do not count
    where = ["--lake", lake, "--engine", "spark", "--json"]
    assert on_server("verify", *where, status=1) == capsys.readouterr().out
    assert main(["measure", *runs, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert json.loads(on_server("measure", *where)) == {Path(run).name: figures[run] for run in runs}


def test_seeds_of_a_campaign_have_the_outcomes_that_they_have_here(on_server: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    on_server("campaign", "--engine", "spark", "--seeds", "1..2", "--out", str(out))
    lines = [json.loads(line) for line in (out / SEEDS_FILE).read_text().splitlines()]
    expected = [json.loads(json.dumps(line_of(try_seed(seed, None, tmp_path)))) for seed in (1, 2)]
    assert [{**line, "processor_seconds": 0} for line in lines] == [
        {**line, "processor_seconds": 0} for line in expected
    ]


def test_without_a_server_there_is_one_line(runs: list[str], tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as closed:
        address = f"sc://{HOST}:{closed.getsockname()[1]}"
    (tmp_path / "tmp").mkdir()
    settings = environment(Path("python3"), tmp_path)
    done = upheaval("verify", runs[0], "--engine", "spark", "--master", address, settings=settings)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"no Spark Connect server answers at {address}" in done.stderr
