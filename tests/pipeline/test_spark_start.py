"""How Spark is started: on the loopback address, whatever the machine is called, and by a user's own settings first."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from support.built_runs import good_run

_SHOWN = """
import json, sys
from upheaval_pipeline.session import session
with session("local[1]", {"spark.sql.shuffle.partitions": "3"}) as spark:
    names = ("spark.driver.host", "spark.driver.bindAddress", "spark.local.dir", "spark.sql.shuffle.partitions")
    print(json.dumps({name: spark.conf.get(name) for name in names}))
"""

_KILLED = """
import os, signal
from upheaval.errors import EnvironmentFault
from upheaval_pipeline.session import session
from pyspark import SparkContext

def kill():
    jvm = SparkContext._gateway.proc
    os.kill(jvm.pid, signal.SIGKILL)
    jvm.wait()

try:
    with session("local[1]") as spark:
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
    options = f"-XX:TieredStopAtLevel=1 -Djava.io.tmpdir={folder} {more.pop('java', '')}"
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


def test_a_users_settings_win_over_ours_and_a_callers_over_all(tmp_path: Path) -> None:
    own = {"spark.driver.host": "localhost", "spark.local.dir": str(tmp_path), "spark.sql.shuffle.partitions": "5"}
    words = " ".join([*(f"--conf {name}={value}" for name, value in own.items()), "pyspark-shell"])
    done = subprocess.run(
        [sys.executable, "-c", _SHOWN],
        env=environment(tmp_path, PYSPARK_SUBMIT_ARGS=words),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    expected = {**own, "spark.driver.bindAddress": "127.0.0.1", "spark.sql.shuffle.partitions": "3"}
    assert json.loads(done.stdout) == expected


def test_a_jvm_that_dies_in_a_session_is_one_line_and_the_next_session_starts_another(tmp_path: Path) -> None:
    """Which exception of py4j comes depends on what its threads have noticed by then."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _KILLED],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    failure, count = done.stdout.splitlines()
    of_py4j = r"Py4J|[Cc]onnection|An error occurred|from Java"
    assert re.match(rf"Spark failed with master 'local\[1\]': .*({of_py4j})", failure), failure
    assert count == "5"
    assert "Traceback" not in done.stderr
