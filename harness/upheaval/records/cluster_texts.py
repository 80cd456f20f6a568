"""The texts of a run's `cluster.json`, which only runs of live clusters have."""

from pathlib import Path
from typing import Final

from upheaval.records import jsonfields
from upheaval.records.jsonfields import FieldError

CLUSTER_FILE: Final = "cluster.json"


def cluster_text(run: Path, name: str) -> str:
    """The text of that field; empty when the file is missing, unreadable or without the field."""
    try:
        return jsonfields.text(jsonfields.parse_object((run / CLUSTER_FILE).read_text(encoding="utf-8")), name)
    except (OSError, UnicodeDecodeError, FieldError):
        return ""
