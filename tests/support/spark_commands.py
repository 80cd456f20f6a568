"""Commands in separate processes, with tasks on a Spark whose Python has none of our packages."""

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

from support.spark_master import HOST
from support.spark_settings import FOR_SMALL_TABLES, SMALL_JVM

COMMAND_TIMEOUT_S: Final = 1800


def bare_python(folder: Path) -> Path:
    """A Python with the same other packages as this one, and without ours."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (there,) = folder.glob("lib/python3*/site-packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.suffix != ".pth" and not path.name.startswith(("__editable__", "upheaval")):
            (there / path.name).symlink_to(path)
    return folder / "bin" / "python"


def environment(python: Path, folder: Path) -> dict[str, str]:
    # Without the settings of the suites, either: users have none of them.
    ours = ("PYTHON", "PYSPARK", "SPARK", "UPHEAVAL")
    outside = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    conf = {**FOR_SMALL_TABLES, "spark.executor.extraJavaOptions": SMALL_JVM}
    return outside | {
        "PYSPARK_PYTHON": str(python),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_WORKER_DIR": str(folder / "work"),
        "PYSPARK_SUBMIT_ARGS": shlex.join(
            [*(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")), "pyspark-shell"]
        ),
        "SPARK_SUBMIT_OPTS": f"{SMALL_JVM} -Djava.io.tmpdir={folder / 'tmp'}",
        "SPARK_DAEMON_JAVA_OPTS": SMALL_JVM,
        "TMPDIR": str(folder / "tmp"),
    }


def begun(*arguments: str, settings: dict[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "upheaval.cli.main", *arguments],
        env=settings,
        cwd=settings["TMPDIR"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def upheaval(*arguments: str, settings: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    with begun(*arguments, settings=settings) as process:
        output, errors = process.communicate(timeout=COMMAND_TIMEOUT_S)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def left_over(settings: dict[str, str]) -> list[str]:
    """What the commands left where they ran and where temporary files go; the master and its workers still live."""
    return [path.name for path in Path(settings["TMPDIR"]).iterdir() if not path.name.startswith("spark-worker")]
