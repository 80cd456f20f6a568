"""The row of a run in the table `runs`, from its manifest, its admin commands and its scenario."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from upheaval.errors import HarnessError
from upheaval.records import RunFolder
from upheaval_pipeline.tables import run_id


def manifest_row(path: str) -> tuple[tuple[Any, ...] | None, str | None]:
    """The row of a run in the table `runs`, or why there is none."""
    folder = Path(path)
    run = RunFolder(folder)
    try:
        m = run.read_manifest()
    except HarnessError as error:
        return None, str(error)
    converged = m.converge is not None and m.converge.reached
    start = (run_id(run), path, m.runtime, m.members, m.profile, m.sync_level)
    return (*start, m.seed, m.created, m.host, converged, m.to_json(), _controls(run), _title(folder)), None


def _controls(run: RunFolder) -> str | None:
    """The commands of operators as JSON text; None when they cannot be read, which their verdict says."""
    try:
        return json.dumps([asdict(control) for control in run.read_controls()])
    except HarnessError:
        return None


def _title(folder: Path) -> str | None:
    """Of the scenario that made the run, if one did."""
    try:
        lines = RunFolder(folder).scenario_file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return next((line.partition(" ")[2].strip() for line in lines if line.startswith("title ")), None)
