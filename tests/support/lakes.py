"""What tests do with lakes: ask one, and have one written by a process that is killed on its way."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_KILLED_AT = """
import os, signal, sys
module, function, event, times = *sys.argv[1:4], int(sys.argv[4])
import pandas, pyspark.sql
from upheaval.cli.main import main
from upheaval_pipeline import ingest, verdicts

def seen(frame, happened, _):
    global times
    code = frame.f_code
    if happened == event and code.co_name == function and code.co_filename.endswith(module):
        times -= 1
        if times == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.setprofile(seen)
sys.exit(main(sys.argv[5:]))
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


def killed_at(module: str, function: str, event: str, words: Sequence[str], *, time: int = 1) -> None:
    """Run a command in a process of its own that gets SIGKILL where a function is called or returns that many times."""
    _killed([_KILLED_AT, module, function, event, str(time), *words])


def _killed(program: Sequence[str]) -> None:
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", *program], capture_output=True, text=True, env=settings, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stdout + ended.stderr


def table_files(lake: Path, table: str) -> list[Path]:
    """Those with rows that the table has now."""
    from upheaval_pipeline.delta import snapshot
    from upheaval_pipeline.place import Place

    return [lake / file.path for file in snapshot(Place(str(lake)), table)]


def as_of_another_version(lake: Path, **more: str) -> None:
    """As if another version of Upheaval had written the runs that are there, in `runs` with these values, too."""
    for table in ("runs", "verdicts"):
        rewritten(lake, table, made_by="another version", **(more if table == "runs" else {}))


def rewritten(lake: Path, table: str, **values: str | None) -> None:
    """As if all rows of a table had these values."""
    from upheaval_pipeline.arrow_schema import arrow_schema
    from upheaval_pipeline.delta import replace
    from upheaval_pipeline.lake import open_lake
    from upheaval_pipeline.lake_files import files_of, write_rows
    from upheaval_pipeline.tables import STORED

    opened = open_lake(str(lake))
    files = opened.tables[table]
    rows = opened.dataset([file.path for file in files], arrow_schema(STORED[table])).to_table()
    for name, value in values.items():
        column = pa.array([value] * rows.num_rows, pa.string())
        rows = rows.set_column(rows.schema.get_field_index(name), name, column)
    replace(opened.place, table, files, files_of(write_rows(str(lake), table, rows.to_batches())))


def damage_page(file: Path, column: str) -> None:
    """Change the last byte of the first pages of a column of a file of rows."""
    group = pq.ParquetFile(file).metadata.row_group(0)
    chunks = (group.column(number) for number in range(group.num_columns))
    chunk = next(chunk for chunk in chunks if chunk.path_in_schema.startswith(column))
    data = bytearray(file.read_bytes())
    data[(chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size - 1] ^= 0xFF
    file.write_bytes(data)
