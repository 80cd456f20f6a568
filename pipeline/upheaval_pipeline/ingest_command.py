"""`upheaval ingest`: run folders and campaigns become tables of a lake."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from upheaval.cli.judge_commands import IngestOptions
from upheaval.cli.tables import table
from upheaval.records.labels import LabelsOfIngest, labels_of
from upheaval_chaos.exit_status import CommandStatus
from upheaval_pipeline.engines import PYTHON, chosen_to_ingest, require_lake_reader
from upheaval_pipeline.shown_session import StageLine, shown_session

if TYPE_CHECKING:
    from upheaval_pipeline.contents import Contents


def ingest(options: IngestOptions) -> int:
    """Write run folders and campaigns to a lake. What is in it as it is needs no Spark."""
    require_lake_reader()
    from upheaval_pipeline.campaigns import campaigns_in_lake, has_all_campaigns, seeds_file
    from upheaval_pipeline.contents import contents_of_runs, new_runs, rows_in_lake
    from upheaval_pipeline.lake import Lake, require_place
    from upheaval_pipeline.upkeep import due
    from upheaval_pipeline.verdicts import cannot_be_judged, judgeable

    line = StageLine()
    require_place(options.lake)
    files = {path: seeds_file(path) for path in options.paths}
    folders = [path for path, file in files.items() if file is None]
    campaigns = [file for file in files.values() if file is not None]
    lake = Lake(options.lake)
    lake.require_room()
    runs = contents_of_runs(folders)
    if not new_runs(lake, runs) and has_all_campaigns(campaigns, lake):
        unused = "; its runs keep the labels that they have" if options.labels and runs else ""
        line.say(f"all of it is in the lake already{unused}")
        written = rows_in_lake(lake, "runs", runs) | campaigns_in_lake(campaigns, lake)
    else:
        written = _ingested(options, runs, campaigns, line)
        if advice := due(Lake(options.lake)):
            line.say(advice)
    if options.json:
        print(json.dumps(written, indent=2))
    else:
        names = list(dict.fromkeys(name for rows in written.values() for name in rows))
        print(
            table([["run", *names], *([run, *(str(rows.get(n, "")) for n in names)] for run, rows in written.items())])
        )
    if not_judged := runs.keys() - judgeable(Lake(options.lake), list(runs)):
        line.say(cannot_be_judged(len(not_judged), options.lake))
        return int(CommandStatus.REFUSED)
    return 0


def _ingested(
    options: IngestOptions, runs: Mapping[str, "Contents"], campaigns: Sequence[Path], line: StageLine
) -> dict[str, dict[str, int]]:
    from upheaval_pipeline.campaigns import ingest_campaigns
    from upheaval_pipeline.contents import new_runs, rows_in_lake
    from upheaval_pipeline.ingest import ingest_runs
    from upheaval_pipeline.lake import Lake
    from upheaval_pipeline.whole import bytes_of_lines

    labels = LabelsOfIngest(labels_of([], os.environ), dict(options.labels))
    written = ingest_campaigns(campaigns, options.lake, line.say) if campaigns else {}
    new = new_runs(Lake(options.lake), runs)
    if not new:
        return rows_in_lake(Lake(options.lake), "runs", runs) | written
    size = sum(bytes_of_lines(runs[run].folder) for run in new)
    choice = chosen_to_ingest(size, options.lake, options.engine, options.master)
    if choice.why:
        line.say(f"engine: {choice.engine}, because {choice.why}")
    if choice.engine == PYTHON:
        try:
            return ingest_runs(None, runs, options.lake, line.say, labels, line.show) | written
        finally:
            line.clear()
    with shown_session(options.master) as shown:
        return ingest_runs(shown.spark, runs, options.lake, shown.line.say, labels) | written
