"""What tests do with lakes: ask one, and have one written by a process that is killed on its way."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

_KILLED_AT = """
import os, signal, sys
module, function, event = sys.argv[1:4]
import pandas, pyspark.sql
from upheaval.cli.main import main
from upheaval_pipeline import ingest, verdicts

def seen(frame, happened, _):
    code = frame.f_code
    if happened == event and code.co_name == function and code.co_filename.endswith(module):
        os.kill(os.getpid(), signal.SIGKILL)

sys.setprofile(seen)
sys.exit(main(sys.argv[4:]))
"""
_KILLED_ON_SIGHT = """
import os, pathlib, signal, sys, threading
folder, pattern = pathlib.Path(sys.argv[1]), sys.argv[2]
from upheaval.cli.main import main

def look():
    while not any(folder.glob(pattern)):
        threading.Event().wait(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=look, daemon=True).start()
sys.exit(main(sys.argv[3:]))
"""


def asked(lake: str, sql: str, limit: int) -> Any:
    """What a query over a lake as it is now gives, on DuckDB."""
    return all_asked(lake, [sql], limit)[0]


def all_asked(lake: str, queries: Sequence[str], limit: int) -> Any:
    """What each query gives, on DuckDB."""
    from upheaval_pipeline.duck import duck_engine
    from upheaval_pipeline.lake import open_lake
    from upheaval_pipeline.query import ask_all

    with duck_engine() as engine:
        return ask_all(engine, open_lake(lake), queries, limit)


def judged_in_lake(spark: Any, lake: Any, runs: Sequence[str]) -> Any:
    """The verdicts on runs of a lake; Spark judges those of which it keeps none."""
    from upheaval_pipeline.verify import verify_lake
    from upheaval_pipeline.whole import judge_each

    return verify_lake(partial(judge_each, spark), lake, runs)


def killed_at(module: str, function: str, event: str, words: Sequence[str]) -> None:
    """Run a command in a process of its own that gets SIGKILL where a function is called or returns."""
    _killed([_KILLED_AT, module, function, event, *words])


def killed_on_sight(folder: Path, pattern: str, words: Sequence[str]) -> None:
    """Run a command in a process of its own that gets SIGKILL once there is a file of that name."""
    _killed([_KILLED_ON_SIGHT, str(folder), pattern, *words])


def _killed(program: Sequence[str]) -> None:
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", *program], capture_output=True, text=True, env=settings, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stdout + ended.stderr


def table_files(lake: Path, table: str) -> list[Path]:
    """Those with rows."""
    return sorted((lake / table).glob("batch=*/*.parquet"))


def as_of_another_version(lake: Path) -> None:
    """As if another version of Upheaval had written all that is there."""
    from upheaval_pipeline.version import version

    for commit in (lake / "commits").glob("*.json"):
        commit.write_text(commit.read_text().replace(version(), "0" * len(version())))
