"""The faults of the cluster under load, for a tab of locust's page, by its documented extensions for tabs and tables.

Locust's charts accept no marks from extensions.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from upheaval.records import RunFolder
from upheaval_node.types import S

_KEY: Final = "faults"
_COLUMNS: Final = {"at": "At (UTC)", "fault": "Fault", "healed": "Healed after", "evidence": "Evidence"}
STATS_PATH: Final = "/stats/requests"
"""The path that the page requests every two seconds."""
TAB: Final[Mapping[str, Any]] = {
    "extended_tabs": [{"key": _KEY, "title": "Faults"}],
    "extended_tables": [{"key": _KEY, "structure": [{"key": key, "title": title} for key, title in _COLUMNS.items()]}],
}


def with_faults(answer: str, run: RunFolder, monotonic_ns: int, now: datetime) -> str:
    """Add the faults so far to an answer of `STATS_PATH`. `monotonic_ns` and `now` are the present time."""
    rows = [
        {
            "at": datetime.fromtimestamp(now.timestamp() - (monotonic_ns - fault.inject_begin_ns) / S, UTC).strftime(
                "%T"
            ),
            "fault": f"{fault.what} {fault.where}",
            "healed": "not yet"
            if fault.heal_end_ns is None
            else f"{(fault.heal_end_ns - fault.inject_begin_ns) / S:.1f} s",
            "evidence": fault.evidence,
        }
        for fault in run.read_faults()
    ]
    return json.dumps({**json.loads(answer), "extended_stats": [{"key": _KEY, "data": rows}]})
