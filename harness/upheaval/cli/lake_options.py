"""Which options of `verify` and `measure` go together: run folders are read here, a lake by Spark."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from upheaval.errors import UsageError


def require_one_place(options: argparse.Namespace, folders: Sequence[Path]) -> None:
    """Raises `UsageError` unless the options name run folders or a lake, and only what their engine can read."""
    if (options.lake is None) != bool(folders):
        raise UsageError("name a run folder, or a lake with --lake, and not both")
    if options.lake is not None and options.engine != "spark":
        raise UsageError("a lake is read by Spark: add --engine spark")
    if options.master is not None and options.engine != "spark":
        raise UsageError("--master is Spark's: add --engine spark")
    if options.lake is None and options.run_id is not None:
        raise UsageError("--run names a run of a lake: add --lake")
