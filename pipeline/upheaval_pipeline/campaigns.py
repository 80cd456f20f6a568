"""`upheaval ingest CAMPAIGN`: what came of the seeds of campaigns becomes rows of the table `seeds` of a lake.

A campaign is known by its first line, so one that has grown replaces what was there of it. This module knows nothing of
runs.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

from upheaval.campaign.findability import SEEDS_FILE
from upheaval.campaign.seed import SEED_FILE
from upheaval.errors import UsageError
from upheaval.records import RunFolder, jsonfields
from upheaval_pipeline.contents import rows_in_lake
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.lake_files import files_of, write_frame
from upheaval_pipeline.tables import CHOICES, SEED_LINE, SEEDS, SEEDS_NAME, read_lines
from upheaval_pipeline.tapes import choices_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME: Final = SEEDS_NAME
_TAKEN: Final = "seconds double, simulated_seconds double, bad string"
_OMITTED: Final = {"seconds", "simulated_seconds", "bad", "schedule", "smallest"}
_SMALLEST: Final = "-smallest"


def seeds_file(path: Path) -> Path | None:
    """The lines of a campaign that a path names; None when it names something else."""
    if path.is_file():
        return path
    file = path / SEEDS_FILE
    return file if file.is_file() else None


def ingest_campaigns(
    spark: "SparkSession", files: Sequence[Path], where: str, say: Callable[[str], None] = lambda _: None
) -> dict[str, dict[str, int]]:
    """Write the seeds of campaigns; return how many each has, and how many lines of it could not be read.

    Raises `UsageError` for a file without a line, and for two of the same campaign.
    """
    file_of = _by_campaign(files)
    schedules = {run: _schedules(file) for run, file in file_of.items()}
    contents = {run: _contents(file, schedules[run]) for run, file in file_of.items()}
    lake = Lake(where)
    new = [run for run in file_of if not _has(lake, run, contents[run])]
    if len(new) < len(file_of):
        say(f"{len(file_of) - len(new)} of {len(file_of)} campaigns are in the lake as they are")
    if new:
        rows = reduce(_union, (_seeds(spark, run, file_of[run], schedules[run], contents[run]) for run in new))
        lake.commit(files_of(write_frame(rows, lake.where, NAME, lake.new_batch())))
    return rows_in_lake(Lake(where), NAME, file_of)


def has_all_campaigns(files: Sequence[Path], lake: Lake) -> bool:
    """Whether an ingest of these campaigns would write nothing. Raises as `ingest_campaigns` does."""
    return all(_has(lake, run, _contents(file, _schedules(file))) for run, file in _by_campaign(files).items())


def campaigns_in_lake(files: Sequence[Path], lake: Lake) -> dict[str, dict[str, int]]:
    """How many seeds a lake has of each, and how many lines that could not be read."""
    return rows_in_lake(lake, NAME, _by_campaign(files))


def _by_campaign(files: Sequence[Path]) -> dict[str, Path]:
    file_of: dict[str, Path] = {}
    for file in files:
        other = file_of.setdefault(_id(file), file)
        if other is not file:
            raise UsageError(f"{other} and {file} are the same campaign: give one of them")
    return file_of


def _union(one: "DataFrame", other: "DataFrame") -> "DataFrame":
    return one.union(other)


def _id(file: Path) -> str:
    _, first = next(read_lines(file), (0, b""))
    if not first.endswith(b"\n"):
        raise UsageError(f"{file} is no campaign: it has no line")
    return hashlib.sha256(first).hexdigest()[:16]


def _has(lake: Lake, run: str, contents: str) -> bool:
    entry = lake.entry(NAME, run)
    return entry is not None and entry.contents == contents and not lake.damage(NAME, run)


def _schedules(file: Path) -> list[tuple[int, str | None, str | None]]:
    """Of each seed whose run is beside the lines: its schedule, and the smallest one that fails alike."""
    schedules: dict[int, dict[str, str]] = {}
    for folder in sorted(file.parent.glob("seed-*")):
        seed = folder.name.removeprefix("seed-").removesuffix(_SMALLEST)
        texts = [path for path in (RunFolder(folder).scenario_file, folder / SEED_FILE) if path.is_file()]
        if seed.isdecimal() and texts:
            kind = "smallest" if folder.name.endswith(_SMALLEST) else "schedule"
            schedules.setdefault(int(seed), {})[kind] = jsonfields.read_text(texts[0])
    return [(seed, texts.get("schedule"), texts.get("smallest")) for seed, texts in sorted(schedules.items())]


def _contents(file: Path, schedules: Sequence[tuple[int, str | None, str | None]]) -> str:
    text = json.dumps([SEEDS, schedules]).encode()
    return hashlib.sha256(file.read_bytes() + text).hexdigest()


def _seeds(
    spark: "SparkSession",
    run: str,
    file: Path,
    schedules: Sequence[tuple[int, str | None, str | None]],
    contents: str,
) -> "DataFrame":
    """The rows of a campaign. A line that is no seed says so in `_reject`."""
    from pyspark.sql import functions as F

    from upheaval_pipeline.spark_rows import NO_PATTERNS

    reader = spark.read.schema(f"{SEED_LINE}, {_TAKEN}").options(**NO_PATTERNS, columnNameOfCorruptRecord="bad")
    texts = spark.createDataFrame(schedules, "seed bigint, schedule string, smallest string")
    lines = reader.json(str(file)).join(F.broadcast(texts), "seed", "left")
    is_bad = "bad IS NOT NULL OR seed IS NULL OR verdict IS NULL"
    reason = F.concat(
        F.lit(f"{file}: no seed: "), F.coalesce(F.substring("bad", 1, 80), F.lit("no `seed` or `verdict`"))
    )
    names = [name for name in lines.columns if name not in _OMITTED]
    return lines.select(
        F.lit(run).alias("run"),
        *names,
        F.coalesce("simulated_seconds", "seconds").alias("seconds"),
        "schedule",
        "smallest",
        F.udf(choices_of, CHOICES, useArrow=False)("tape").alias("choices"),
        F.when(F.expr(is_bad), reason).alias("_reject"),
        F.lit(contents).alias("contents"),
        F.lit("").alias("made_by"),
    )
