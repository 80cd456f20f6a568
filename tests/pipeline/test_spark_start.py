"""How Spark is started: on the loopback address, whatever the machine is called, and by a user's own settings first."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from support.built_runs import good_run
from support.spark_settings import SMALL_JVM

_OWN = {"spark.driver.host": "localhost", "spark.sql.shuffle.partitions": "5"}
_SHOWN_AND_KILLED = """
import json, os, signal
from upheaval.errors import EnvironmentFault
from upheaval_pipeline.session import session
from pyspark import SparkContext

def kill():
    jvm = SparkContext._gateway.proc
    os.kill(jvm.pid, signal.SIGKILL)
    jvm.wait()

try:
    with session("local[1]", {"spark.sql.shuffle.partitions": "3"}) as spark:
        names = ("spark.driver.host", "spark.driver.bindAddress", "spark.local.dir", "spark.sql.shuffle.partitions")
        print(json.dumps({name: spark.conf.get(name) for name in names}))
        print(os.fstat(2).st_size)
        print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        rows = spark.range(5)
        kill()
        rows.collect()
except EnvironmentFault as error:
    print(error)
with session("local[1]") as spark:
    print(spark.range(5).count())
    kill()
"""


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    options = f"{SMALL_JVM} -Djava.io.tmpdir={folder} {more.pop('java', '')}"
    return {**kept, "TMPDIR": str(folder), "SPARK_SUBMIT_OPTS": options, **more}


def test_a_machine_whose_name_does_not_resolve_judges_runs(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n")
    good_run().write(tmp_path / "run")
    done = subprocess.run(
        [sys.executable, "-m", "upheaval.cli.main", "verify", "--engine", "spark", "--json", str(tmp_path / "run")],
        env=environment(tmp_path, java=f"-Djdk.net.hosts.file={tmp_path / 'hosts'}"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["verdict"] == "valid"


class Sessions(NamedTuple):
    """A process with two sessions, of which the first loses its JVM: their folder and what they print."""

    folder: Path
    lines: list[str]
    errors: str


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Sessions:
    folder = tmp_path_factory.mktemp("sessions")
    own = {**_OWN, "spark.local.dir": str(folder)}
    words = " ".join([*(f"--conf {name}={value}" for name, value in own.items()), "pyspark-shell"])
    with (folder / "stderr").open("wb") as errors:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _SHOWN_AND_KILLED],
            env=environment(folder, PYSPARK_SUBMIT_ARGS=words),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            check=False,
        )
    text = (folder / "stderr").read_text(encoding="utf-8")
    assert done.returncode == 0, text
    return Sessions(folder, done.stdout.splitlines(), text)


def test_a_users_settings_win_over_ours_and_a_callers_over_all(sessions: Sessions) -> None:
    expected = {
        **_OWN,
        "spark.local.dir": str(sessions.folder),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
    }
    shown, length_of_stderr, *_ = sessions.lines
    assert (json.loads(shown), length_of_stderr) == (expected, "0"), sessions.errors


def test_an_interrupt_goes_to_the_program_and_not_to_pyspark(sessions: Sessions) -> None:
    assert sessions.lines[2] == "True"


def test_a_jvm_that_dies_in_a_session_is_one_line_and_the_next_session_starts_another(sessions: Sessions) -> None:
    """Which exception of py4j comes depends on what its threads have noticed by then."""
    *_, failure, count = sessions.lines
    assert len(sessions.lines) == 5
    of_py4j = r"Py4J|[Cc]onnection|An error occurred|from Java"
    assert re.match(rf"Spark failed with master 'local\[1\]': .*({of_py4j})", failure), failure
    assert count == "5"
    assert "Traceback" not in sessions.errors
