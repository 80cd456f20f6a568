"""The jobs on a Spark master of its own, whose workers' Python has none of our packages but what we send along.

Everything listens on the loopback address alone, and ends with the test.
"""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from support.built_locks import locks_run
from support.built_runs import good_run
from support.lakes import asked, table_files
from support.spark_commands import COMMAND_TIMEOUT_S, bare_python, begun, environment, left_over, upheaval
from support.spark_master import HOST, executors, spark_master
from upheaval.campaign.campaign import line_of
from upheaval.campaign.seed import try_seed
from upheaval.campaign.seed_lines import SEEDS_FILE
from upheaval.checkers.judge import verify_run
from upheaval.cli.main import main
from upheaval.waits import wait_until
from upheaval_pipeline.packages import PACKAGES


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a master with a worker, and the environment in which they run."""
    folder = tmp_path_factory.mktemp("standalone")
    (folder / "tmp").mkdir()
    python = bare_python(folder / "python")
    settings = environment(python, folder)
    with spark_master(folder, settings, 1, cores=2, memory="1g") as master:
        yield master, settings


@pytest.mark.parametrize("package", PACKAGES)
def test_the_workers_python_has_none_of_our_packages(
    cluster: tuple[str, dict[str, str]], tmp_path: Path, package: str
) -> None:
    _, settings = cluster
    plain = subprocess.run(
        [settings["PYSPARK_PYTHON"], "-c", f"import pyspark, pyarrow; import {package}"],
        env=settings,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert plain.returncode == 1
    assert f"ModuleNotFoundError: No module named '{package}'" in plain.stderr


@pytest.mark.parametrize("also_from_the_run", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_lake_and_verdicts_from_a_master(
    also_from_the_run: bool, cluster: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    master, settings = cluster
    assert master.startswith(f"spark://{HOST}:")
    run, lake = tmp_path / "run", tmp_path / "lake"
    good_run().write(run)
    blocked = tmp_path / "a-file"
    blocked.write_text("")
    refused = upheaval("ingest", str(run), "--lake", str(blocked), "--master", master, settings=settings)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1), refused.stderr
    assert str(blocked) in refused.stderr
    written = upheaval("ingest", str(run), "--lake", str(lake), "--json", "--master", master, settings=settings)
    assert written.returncode == 0, written.stderr
    assert json.loads(written.stdout)["run-1"]["history"] == 400
    where = ["--engine", "spark", "--json", "--master", master]
    of_run = ["--lake", str(lake), "--run", "run-1"]
    from_lake = upheaval("verify", *of_run, *where, settings=settings)
    assert from_lake.returncode == 0, from_lake.stderr
    assert table_files(lake, "verdicts")
    expected = {finding.promise: finding.detail for finding in verify_run(run).findings}
    assert {f["promise"]: f["detail"] for f in json.loads(from_lake.stdout)["promises"]} == expected
    if also_from_the_run:
        locks_run("fenced_model:Locks").write(tmp_path / "own")  # whose model is code that no worker has
        judged = upheaval("verify", str(run), str(tmp_path / "own"), *where, settings=settings)
        expected_of_both = [verify_run(folder).to_fields() for folder in (run, tmp_path / "own")]
        assert json.loads(judged.stdout) == json.loads(json.dumps(expected_of_both))
    assert left_over(settings) == []


@pytest.mark.nightly
def test_an_executor_that_is_killed_in_the_middle_changes_nothing(
    cluster: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    """Of ingest, which judges, and of judging alone; a run is a hundred times as long as the others."""
    master, settings = cluster
    lengths, lake = {"long": 20_000, **{f"short-{number}": 200 for number in range(10)}}, tmp_path / "lake"
    for name, length in lengths.items():
        built = good_run(length)
        built.manifest = replace(built.manifest, run_id=name)
        built.write(tmp_path / name)
    runs = [str(tmp_path / name) for name in lengths]
    expected = [verify_run(run).to_fields() for run in runs]
    for words in (["ingest", *runs, "--lake", str(lake)], ["verify", *runs, "--engine", "spark"]):
        command = [*words, "--json", "--master", master]
        with begun(*command, settings=settings) as job:

            def at_work(job: "subprocess.Popen[str]" = job) -> list[psutil.Process] | None:
                assert job.poll() is None, job.communicate()
                return executors(Path(settings["SPARK_WORKER_DIR"])) or None

            lost, *_ = wait_until(at_work, timeout_s=COMMAND_TIMEOUT_S, describe=lambda: "no executor with a task")
            lost.kill()
            told, why = job.communicate(timeout=COMMAND_TIMEOUT_S)
        assert job.returncode == 0, why
        assert not lost.is_running()
    assert json.loads(told) == json.loads(json.dumps(expected))
    counts = asked(str(lake), "SELECT run, count(*) FROM history GROUP BY run", 99).rows
    assert dict(counts) == lengths
    kept = asked(str(lake), "SELECT run, verdict FROM judged", 99).rows
    assert dict(kept) == {name: one["verdict"] for name, one in zip(lengths, expected, strict=True)}


@pytest.mark.nightly
def test_a_campaign_whose_executor_is_killed_has_every_seed_in_order_and_in_the_lake(
    cluster: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    master, settings = cluster
    out, lake = tmp_path / "out", tmp_path / "lake"
    where = ["--out", str(out), "--lake", str(lake)]
    with begun(
        "campaign", "--engine", "spark", "--master", master, "--seeds", "1..12", *where, settings=settings
    ) as job:

        def has_begun() -> list[psutil.Process] | None:
            assert job.poll() is None, job.communicate()
            return (executors(Path(settings["SPARK_WORKER_DIR"])) or None) if (out / SEEDS_FILE).is_file() else None

        lost, *_ = wait_until(has_begun, timeout_s=COMMAND_TIMEOUT_S, describe=lambda: "no executor with a seed")
        lost.kill()
        _, why = job.communicate(timeout=COMMAND_TIMEOUT_S)
    assert job.returncode == 0, why
    lines = [json.loads(line) for line in (out / SEEDS_FILE).read_text().splitlines()]
    assert [line["seed"] for line in lines] == list(range(1, 13))
    first = line_of(try_seed(1, None, tmp_path))
    assert {**lines[0], "processor_seconds": 0} == {**json.loads(json.dumps(first)), "processor_seconds": 0}
    sql = "SELECT seed, tape IS NOT NULL FROM seeds ORDER BY seed"
    assert asked(str(lake), sql, 99).rows == tuple((seed, True) for seed in range(1, 13))
    assert asked(str(lake), "SELECT count(DISTINCT seed) FROM tapes", 9).rows == ((12,),)


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_campaign_ends_its_jobs_and_its_lines_can_be_ingested(
    number: signal.Signals, cluster: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    """Of so many seeds that it would not end by itself while the test waits."""
    master, settings = cluster
    out, lake = tmp_path / "out", tmp_path / "lake"
    words = ["--engine", "spark", "--master", master, "--seeds", "1..100000", "--out", str(out)]
    with begun("campaign", *words, settings=settings) as job:

        def has_lines() -> bool:
            assert job.poll() is None, job.communicate()
            return (out / SEEDS_FILE).is_file() and (out / SEEDS_FILE).read_text().count("\n") > 0

        wait_until(has_lines, timeout_s=COMMAND_TIMEOUT_S, describe=lambda: "no line of a seed")
        job.send_signal(number)
        _, why = job.communicate(timeout=COMMAND_TIMEOUT_S)
    assert (job.returncode, "interrupted: nothing was left running" in why) == (128 + number, True), why
    wait_until(
        lambda: not executors(Path(settings["SPARK_WORKER_DIR"])),
        timeout_s=COMMAND_TIMEOUT_S,
        describe=lambda: "an executor goes on",
    )
    assert left_over(settings) == []
    lines = (out / SEEDS_FILE).read_text().splitlines()
    assert [json.loads(line)["seed"] for line in lines] == list(range(1, len(lines) + 1))
    assert main(["ingest", str(out), "--lake", str(lake)]) == 0
    assert asked(str(lake), "SELECT count(*) FROM seeds", 9).rows == ((len(lines),),)


def test_a_master_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    """Spark itself would try for minutes, and print pages."""
    with socket.create_server((HOST, 0)) as closed:
        port = closed.getsockname()[1]
    settings = environment(Path(sys.executable), tmp_path)
    good_run(5).write(tmp_path / "run")
    command = ["verify", str(tmp_path / "run"), "--engine", "spark", "--master"]
    (tmp_path / "tmp").mkdir()
    for master, reason in (
        (f"spark://{HOST}:{port}", "no Spark master answers at"),
        ("spark://nobody", "expected spark://HOST:PORT as Spark master, got 'spark://nobody'"),
        ("sparkle://here", "Spark does not start with master"),
    ):
        done = upheaval(*command, master, settings=settings)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        assert reason in done.stderr
        assert master in done.stderr
    assert left_over(settings) == []
    scratch = tmp_path / "local"  # which the environment names for Spark
    assert not scratch.exists() or list(scratch.iterdir()) == []
    assert {path.name for path in tmp_path.iterdir()} - {scratch.name} == {"run", "tmp"}
