"""Starts Spark, or says in one line what is missing. Nothing else of the pipeline knows how Spark is set up."""

import logging
import os
import re
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeGuard

from upheaval.errors import EnvironmentFault
from upheaval.extras import install_line
from upheaval.records import owned_folder
from upheaval_chaos.programs import ENCODING, ERRORS, run_program
from upheaval_pipeline.packages import write_archive

JAVA_MIN = 17
WHAT_WORKS = "`upheaval verify`, `measure`, `report`, `watch` and `ingest --engine python` work without it"
LOCAL = "local[*]"
LOOPBACK = "127.0.0.1"
CONNECT_TIMEOUT_S = 5.0
WORKERS_TIMEOUT_S = 60.0
PAGE_CHECKSUMS = "parquet.page.verify-checksum.enabled"
"""Of Parquet files: what was changed by whatever is no evidence."""
_LOG_SETTINGS = "rootLogger.level = off\n"
_STANDALONE = "spark://"
_CONNECT = "sc://"
_DRIVER_HOST = "spark.driver.host"
_ADDRESSES = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")
"""The variables by which people say which address and name Spark has here."""
_OF_SHELLS = ("spark.ui.showConsoleProgress",)
"""What Spark sets by itself where it is started from Python."""
_STORE_CLIENTS = ("hadoop-aws", "spark-hadoop-cloud")
_POLL_S = 0.1
_REASON_LENGTH = 300


def require_spark(master: str | None = None) -> None:
    """Raises `EnvironmentFault` when PySpark, what it imports or a fitting Java is not there."""
    if missing := missing_for_spark(master):
        raise EnvironmentFault(f"{missing}; {WHAT_WORKS}")


def missing_for_spark(master: str | None = None) -> str:
    """What Spark needs on a master and this machine has not; empty where it has all."""
    for module in ("pyspark", "pyarrow", "pandas"):
        if find_spec(module) is None:
            return f"{module} is not installed: {install_line('spark')}"
    if is_connect(master):
        return ""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    if java is None:
        where = f"JAVA_HOME ({home})" if home else "the path"
        return f"no Java in {where}: Spark needs Java {JAVA_MIN} or newer"
    try:
        shown = run_program([java, "-version"]).stderr
    except OSError as error:
        return f"{java} cannot be run: {error.strerror}"
    version = re.search(r'version "(?:1\.)?(\d+)', shown)
    if version is None or int(version[1]) < JAVA_MIN:
        shown_version = version[1] if version else "of an unknown version"
        return f"{java} is Java {shown_version}: Spark needs Java {JAVA_MIN} or newer"
    return ""


@contextmanager
def session(master: str = LOCAL, settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A Spark session with our sources; ended, with everything it wrote for itself, on the way out.

    `settings` are Spark's, over ours; so are those of the user's own configuration. Raises `EnvironmentFault` when the
    master cannot be used, or a job fails.
    """
    require_spark()
    _require_master(master)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from upheaval_pipeline import sources

    with owned_folder("spark") as scratch, _quiet_py4j():
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        spark = _start(scratch, master, settings or {})
        try:
            if not is_local(master):
                _require_workers(spark, master)
                spark.sparkContext.addPyFile(str(write_archive(scratch)))
            sources.register(spark)
            yield spark
        except (PySparkException, Py4JError, ConnectionError) as error:
            if isinstance(error, ConnectionError) and _is_alive(spark):
                raise
            raise EnvironmentFault(f"Spark failed with master {master!r}: {cause_of(error)}") from error
        finally:
            _stop(spark)


@contextmanager
def _quiet_py4j() -> Iterator[None]:
    """py4j logs errors that it also raises, by the root logger, which prints tracebacks where it has no handler."""
    root = logging.getLogger()
    root.addFilter(_is_not_of_py4j)
    try:
        yield
    finally:
        root.removeFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def _is_alive(spark: Any) -> bool:
    """Whether the JVM answers."""
    from py4j.protocol import Py4JError

    try:
        spark.sparkContext._jvm.java.lang.System.nanoTime()
    except (Py4JError, ConnectionError):
        return False
    return True


def _stop(spark: Any) -> None:
    """End the session. A JVM that has died has nothing left to end, and its successor starts anew."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    try:
        spark.stop()
    except (Py4JError, ConnectionError):
        if _is_alive(spark):
            raise
        gateway = SparkContext._gateway
        # What Python knows of a dead JVM keeps it from starting another.
        SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
        SparkSession._instantiatedSession = None
        if gateway is not None:
            gateway.shutdown()


def _start(scratch: Path, master: str, settings: Mapping[str, str]) -> Any:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    ours = _settings(scratch, master)
    try:
        with _quiet_start(scratch), _addresses(ours), _own_interrupt():
            SparkContext._ensure_initialized()
            of_user = SparkConf()  # what the JVM was started with
            builder = SparkSession.builder.appName("upheaval").master(master)
            for name, value in ours.items():
                if name in _OF_SHELLS or not of_user.contains(name):
                    builder = builder.config(name, value)
            for name, value in settings.items():
                builder = builder.config(name, value)
            return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError, RuntimeError) as error:
        raise EnvironmentFault(
            f"Spark does not start with master {master!r}: {_reason(error, scratch)}; {WHAT_WORKS}"
        ) from error


@contextmanager
def _addresses(settings: Mapping[str, str]) -> Iterator[None]:
    """While the JVM starts, which looks up the machine's own name before it reads settings, and need not find it."""
    host = settings.get(_DRIVER_HOST)
    ours = {} if host is None else dict.fromkeys(_ADDRESSES, host)
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """PySpark sets a handler of SIGINT that stays, and that would interrupt what ends a session."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


def _is_on_loopback(master: str) -> bool:
    return is_local(master) or re.match(r"spark://(127\.|localhost:)", master) is not None


def is_connect(master: str | None) -> TypeGuard[str]:
    """Whether a master is a server of Spark Connect."""
    return master is not None and master.startswith(_CONNECT)


def is_local(master: str) -> bool:
    """Whether tasks run on this machine, in processes of this session."""
    return master == "local" or master.startswith("local[")


def _hosts(master: str) -> list[tuple[str, int]]:
    """The masters of a standalone cluster. Raises `ValueError`."""
    masters = []
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        if not host or not 0 < int(port) < 1 << 16:
            raise ValueError(address)
        masters.append((host, int(port)))
    return masters


def _require_master(master: str) -> None:
    """Raise at once for a standalone master that cannot be reached, where Spark itself tries for minutes."""
    if not master.startswith(_STANDALONE):
        return
    try:
        hosts = _hosts(master)
    except ValueError:
        raise EnvironmentFault(f"expected spark://HOST:PORT as Spark master, got {master!r}") from None
    why = ""
    for address in hosts:
        try:
            socket.create_connection(address, CONNECT_TIMEOUT_S).close()
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
        else:
            return
    raise EnvironmentFault(f"no Spark master answers at {master}: {why}; {WHAT_WORKS}")


def _require_workers(spark: Any, master: str) -> None:
    """Without this, the first job would wait for workers for ever."""
    deadline = time.monotonic() + WORKERS_TIMEOUT_S
    context = spark.sparkContext
    while time.monotonic() < deadline and not context._jsc.sc().isStopped():
        if len(context._jsc.sc().statusTracker().getExecutorInfos()) > 1:  # the first one is this process
            return
        time.sleep(_POLL_S)
    what = "does not take the job" if context._jsc.sc().isStopped() else "gave no worker"
    raise EnvironmentFault(f"the Spark master {master} {what} within {WORKERS_TIMEOUT_S:.0f} s; {WHAT_WORKS}")


@contextmanager
def _quiet_start(scratch: Path) -> Iterator[None]:
    """While the JVM starts, stderr is a file, and stays one for it; we report what is wrong."""
    (scratch / "log4j2.properties").write_text(_LOG_SETTINGS, encoding="utf-8")
    os.environ.setdefault("SPARK_CONF_DIR", str(scratch))
    sys.stderr.flush()
    standard_error = os.dup(2)
    try:
        with (scratch / "stderr.log").open("wb") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)
        if os.environ.get("SPARK_CONF_DIR") == str(scratch):
            del os.environ["SPARK_CONF_DIR"]


def _settings(scratch: Path, master: str) -> dict[str, str]:
    from upheaval_pipeline.place import endpoint

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": "8",
        # The plans say themselves what is small. Replanning them after each shuffle takes longer than an ordinary run.
        "spark.sql.adaptive.enabled": "false",
        # It would read a side of a join twice, through a stage of one partition.
        "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.artifact.isolation.enabled": "false",
        f"spark.hadoop.{PAGE_CHECKSUMS}": "true",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    }
    store = endpoint()
    if store:
        # Such stores have no name for each bucket.
        settings |= {"spark.hadoop.fs.s3a.endpoint": store, "spark.hadoop.fs.s3a.path.style.access": "true"}
    if _is_on_loopback(master) and not any(name in os.environ for name in _ADDRESSES):
        settings |= {_DRIVER_HOST: LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return settings


def _reason(error: BaseException, scratch: Path) -> str:
    """Why the start failed: the exception that the JVM printed, or else the first line of `error`."""
    printed = (scratch / "stderr.log").read_text(encoding=ENCODING, errors=ERRORS).splitlines()
    for line in printed:
        match = re.search(r"(?:Exception|Error): (.+)", line)
        if match:
            return match[1]
    return _first_line(error)


def cause_of(error: BaseException) -> str:
    """The last cause that is named anywhere in what a failed job says."""
    if "S3AFileSystem not found" in str(error):
        return f"{_no_store_client()}, or read with --engine duckdb"
    named = re.findall(r"(?m)^[ \t]*(?:Caused by: )?([\w.$]+(?:Error|Exception|Failure|Fault)(?:: .+)?)$", str(error))
    return (named[-1] if named else _first_line(error))[:_REASON_LENGTH]


def missing_for_store() -> str:
    """How Spark gets a client of S3, where neither its settings nor its folder of jars names one."""
    settings = [os.environ.get("PYSPARK_SUBMIT_ARGS", "")]
    if folder := os.environ.get("SPARK_CONF_DIR"):
        settings += (path.read_text(ENCODING, ERRORS) for path in Path(folder).glob("spark-defaults.conf"))
    settings += (path.name for path in _jars().glob("*.jar"))
    return "" if any(client in text for client in _STORE_CLIENTS for text in settings) else _no_store_client()


def _no_store_client() -> str:
    return f"no client of S3: set PYSPARK_SUBMIT_ARGS='{store_client()}'"


def _jars() -> Path:
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"


def store_client() -> str:
    """The value of `PYSPARK_SUBMIT_ARGS` by which Spark gets Hadoop's client of S3, of PySpark's version of Hadoop."""
    (of_hadoop,) = _jars().glob("hadoop-client-api-*.jar")
    return f"--packages org.apache.hadoop:hadoop-aws:{of_hadoop.stem.rpartition('-')[2]} pyspark-shell"


def _first_line(error: BaseException) -> str:
    """What the JVM printed, without its stack."""
    java = getattr(error, "java_exception", None)
    shown = str(java.getMessage() if java is not None else error).strip()
    return shown.splitlines()[0] if shown else type(error).__name__
