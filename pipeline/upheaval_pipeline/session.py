"""Starts Spark, or says in one line what is missing. Nothing else of the pipeline knows how Spark is set up."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from upheaval.errors import EnvironmentFault

JAVA_MIN = 17
WHAT_WORKS = "`upheaval verify` and `upheaval report` work without it"
LOCAL = "local[*]"
PACKAGES = ("upheaval", "upheaval_node", "upheaval_pipeline")
_LOG_SETTINGS = "rootLogger.level = off\n"


def require_spark() -> None:
    """Raises `EnvironmentFault` when PySpark or a fitting Java is not there."""
    for module in ("pyspark", "pyarrow", "pandas"):
        if find_spec(module) is None:
            raise EnvironmentFault(f"{module} is not installed: pip install 'upheaval[spark]'; {WHAT_WORKS}")
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    if java is None:
        where = f"JAVA_HOME ({home})" if home else "the path"
        raise EnvironmentFault(f"no Java in {where}: Spark needs Java {JAVA_MIN} or newer; {WHAT_WORKS}")
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', shown)
    if version is None or int(version[1]) < JAVA_MIN:
        found = version[1] if version else "of an unknown version"
        raise EnvironmentFault(f"{java} is Java {found}: Spark needs Java {JAVA_MIN} or newer; {WHAT_WORKS}")


@contextmanager
def session(master: str = LOCAL) -> Iterator[Any]:
    """A Spark session with our sources; ended, with everything it wrote for itself, on the way out."""
    require_spark()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from upheaval_pipeline import sources

    with tempfile.TemporaryDirectory(prefix="upheaval-spark-") as scratch:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.appName("upheaval").master(master)
        for name, value in _settings(Path(scratch), master).items():
            builder = builder.config(name, value)
        try:
            with _quiet_start(Path(scratch)):
                spark = builder.getOrCreate()
        except (PySparkException, OSError, RuntimeError) as error:
            raise EnvironmentFault(
                f"Spark does not start with master {master!r}: {_reason(error, Path(scratch))}"
            ) from error
        except Exception as error:
            if type(error).__module__.startswith("py4j"):
                raise EnvironmentFault(
                    f"Spark does not start with master {master!r}: {_reason(error, Path(scratch))}"
                ) from error
            raise
        try:
            if not master.startswith("local["):
                spark.sparkContext.addPyFile(str(_package(Path(scratch))))
            sources.register(spark)
            yield spark
        finally:
            spark.stop()


@contextmanager
def _quiet_start(scratch: Path) -> Iterator[None]:
    """While the JVM starts, stderr is a file, and stays one for it; what is wrong is said by us."""
    (scratch / "log4j2.properties").write_text(_LOG_SETTINGS)
    os.environ.setdefault("SPARK_CONF_DIR", str(scratch))
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with (scratch / "stderr.log").open("wb") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        if os.environ.get("SPARK_CONF_DIR") == str(scratch):
            del os.environ["SPARK_CONF_DIR"]


def _settings(scratch: Path, master: str) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": "8",
        # Small tables stay as many tasks as they have groups; ours are few and each is worth a core.
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    }
    if master.startswith("local"):
        settings |= {"spark.driver.host": "localhost", "spark.driver.bindAddress": "127.0.0.1"}
    return settings


def _package(scratch: Path) -> Path:
    """Our packages as an archive that workers on other machines import from."""
    archive = scratch / "upheaval.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as package:
        for name in PACKAGES:
            spec = find_spec(name)
            assert spec is not None
            assert spec.submodule_search_locations is not None
            root = Path(next(iter(spec.submodule_search_locations)))
            for path in sorted(root.rglob("*")):
                if path.suffix in (".py", ".json"):
                    package.write(path, str(Path(name) / path.relative_to(root)))
    return archive


def _reason(error: BaseException, scratch: Path) -> str:
    """Why the start failed: the exception that the JVM printed, or else what we were told."""
    printed = (scratch / "stderr.log").read_text(errors="replace").splitlines()
    for line in printed:
        found = re.search(r"(?:Exception|Error): (.+)", line)
        if found:
            return found[1]
    return _first_line(error)


def _first_line(error: BaseException) -> str:
    """What the JVM said, without its stack."""
    java = getattr(error, "java_exception", None)
    shown = str(java.getMessage() if java is not None else error).strip()
    return shown.splitlines()[0] if shown else type(error).__name__
