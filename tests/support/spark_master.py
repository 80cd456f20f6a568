"""A standalone Spark master with its workers, or a server of Spark Connect: processes on the loopback address that end
with the block.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pyspark

from support.spark_settings import FOR_SMALL_TABLES
from upheaval.waits import wait_until

HOST = "127.0.0.1"
SPARK_HOME = Path(pyspark.__file__).parent
START_TIMEOUT_S = 600


@contextmanager
def spark_master(folder: Path, settings: Mapping[str, str], workers: int, *, cores: int, memory: str) -> Iterator[str]:
    """The address of a master with workers of so many cores each."""
    resources = ("--cores", str(cores), "--memory", memory)
    with ExitStack() as stack:
        master = stack.enter_context(_daemon(folder, "master.Master", settings, "--port", "0", "--webui-port", "0"))
        for _ in range(workers):
            stack.enter_context(_daemon(folder, "worker.Worker", settings, "--webui-port", "0", *resources, master))
        yield master


@contextmanager
def connect_server(folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """The address of a server of Spark Connect with two cores, whose log is a file in the folder."""
    conf = {
        **FOR_SMALL_TABLES,
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
    }
    command = [
        str(SPARK_HOME / "bin" / "spark-submit"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]"),
        *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
        "spark-internal",
    ]
    path = folder / "server.log"
    with (
        path.open("wb") as log,
        subprocess.Popen(
            command,
            env={**settings, "SPARK_HOME": str(SPARK_HOME)},
            cwd=folder,
            stderr=subprocess.STDOUT,
            stdout=log,
            start_new_session=True,
        ) as process,
    ):

        def address() -> str | None:
            logged = path.read_text(encoding="utf-8", errors="replace")
            assert process.poll() is None, logged
            served = re.search(r"Spark Connect server started at: (\S+:\d+)\n", logged)
            return None if served is None else served[1]

        try:
            yield "sc://" + wait_until(address, timeout_s=START_TIMEOUT_S, describe=lambda: path.read_text())
        finally:
            os.killpg(process.pid, signal.SIGTERM)


def executors(folder: Path) -> list[psutil.Process]:
    """Those that workers in this folder (`SPARK_WORKER_DIR`) started and that run tasks of ours in Python."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.name() == "java" and process.cwd().startswith(str(folder)) and process.children():
                found.append(process)
    return found


@contextmanager
def _daemon(folder: Path, name: str, settings: Mapping[str, str], *arguments: str) -> Iterator[str]:
    """A master or worker in a process group of its own; yields the address that it logs when it serves."""
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", HOST, *arguments]
    with subprocess.Popen(
        command,
        env={**settings, "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": HOST},
        cwd=folder,
        stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield _served(process)
        finally:
            os.killpg(process.pid, signal.SIGTERM)


def _served(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        found = re.search(r"(?:Starting Spark master at|Successfully registered with master) (\S+)", line)
        if found:
            return found[1]
    raise AssertionError("".join(said))
