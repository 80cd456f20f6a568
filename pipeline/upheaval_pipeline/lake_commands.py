"""`upheaval lake info | optimize | drop | export | migrate`."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from upheaval.cli.answers import answer
from upheaval.cli.judge_commands import DropOptions, LakeExportOptions, LakeOptions
from upheaval.cli.tables import table
from upheaval.errors import UsageError
from upheaval_pipeline.engines import DUCKDB, chosen, require_lake_reader

if TYPE_CHECKING:
    from upheaval_pipeline.lake import Lake

_DAY_S = 86_400


def info(options: LakeOptions) -> int:
    """Print what a lake holds, by table."""
    require_lake_reader()
    from upheaval_pipeline import upkeep
    from upheaval_pipeline.lake import open_lake

    lake = open_lake(options.lake)
    tables = upkeep.info(lake)
    times = upkeep.times_of(lake)
    facts = {
        "runs": len(lake.runs("runs")),
        "campaigns": len(lake.runs("seeds")),
        "first_ingest": times[0] if times else None,
        "last_ingest": times[-1] if times else None,
        "small_files": upkeep.small_files(lake),
    }
    head = ["table", "files", "bytes", "rows", "version"]
    rows = [[one.table, *map(str, (one.files, one.bytes, one.rows, one.version))] for one in tables]
    when = f", ingested from {times[0]} to {times[-1]}" if times else ""
    contents = f"{facts['runs']} runs and {facts['campaigns']} campaigns{when}"
    text = "\n\n".join(filter(None, (contents, table([head, *rows]), upkeep.due(lake))))
    answer(text, {**facts, "tables": [asdict(one) for one in tables]}, as_json=options.json)
    return 0


def optimize(options: LakeOptions) -> int:
    """Compact a lake; print how many files it has now."""
    require_lake_reader()
    from upheaval_pipeline import upkeep
    from upheaval_pipeline.lake import open_lake

    before = upkeep.optimize(open_lake(options.lake))
    after = _files(open_lake(options.lake))
    answer(f"{after} files instead of {before}", {"files": after, "files_before": before}, as_json=options.json)
    return 0


def drop(options: DropOptions) -> int:
    """Erase runs and campaigns; print which."""
    require_lake_reader()
    from upheaval_pipeline import upkeep
    from upheaval_pipeline.lake import open_lake

    if (options.older_than_s is None) == (not options.runs):
        raise UsageError("name runs with --run, or an age with --older-than, and not both")
    lake = open_lake(options.lake)
    runs = list(options.runs)
    if options.older_than_s is not None:
        runs = upkeep.older_than(lake, options.older_than_s / _DAY_S)
    left = upkeep.drop(lake, runs) if runs else 0
    text = "\n".join(f"dropped {run}" for run in runs) or "nothing is that old"
    if left:
        text += f"\n{left} files that no ingest has committed may have rows of them: repeat the drop in an hour"
    answer(text, {"dropped": runs, "uncommitted_files": left}, as_json=options.json)
    return 0


def export(options: LakeExportOptions) -> int:
    """Write tables and views of a lake to a DuckDB database; print its size."""
    chosen(DUCKDB, None)
    from upheaval_pipeline.database import write_database
    from upheaval_pipeline.lake import open_lake

    lake = open_lake(options.lake)
    write_database(lake, options.out)
    facts = {"runs": len(lake.runs("runs")), "bytes": options.out.stat().st_size}
    text = f"{options.out}: {facts['runs']} runs, {facts['bytes']} bytes"
    answer(text, {"file": str(options.out), **facts}, as_json=options.json)
    return 0


def migrate(options: LakeOptions) -> int:
    """Rewrite a lake of an older version; print how many runs it has."""
    require_lake_reader()
    from upheaval_pipeline.older_lake import migrate

    runs = migrate(options.lake)
    answer(f"{runs} runs and campaigns migrated", {"migrated": runs}, as_json=options.json)
    return 0


def _files(lake: "Lake") -> int:
    return sum(map(len, lake.tables.values()))
