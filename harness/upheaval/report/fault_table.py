"""The faults of a run as a table, without the columns in which no fault has anything."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.report.figures import FaultFigures, Figures, duration

NOTHING: Final = "-"


@dataclass(frozen=True, slots=True)
class FaultTable:
    """Of each fault its evidence, and a cell for each head."""

    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]


def fault_table(figures: Figures) -> FaultTable:
    """In the order in which the faults began."""
    faults = sorted(figures.faults, key=lambda fault: fault.begin)
    columns = {head: [cell(fault) for fault in faults] for head, cell in _CELLS.items()}
    filled = {head: cells for head, cells in columns.items() if any(cell != NOTHING for cell in cells)}
    rows = zip(*filled.values(), strict=True)
    return FaultTable(tuple(filled), [(fault.evidence, cells) for fault, cells in zip(faults, rows, strict=True)])


def _after(ns: int | None) -> str:
    return NOTHING if ns is None else f"after {duration(ns)}"


def _pair(latencies: tuple[float, float] | None) -> str:
    return NOTHING if latencies is None else " / ".join(map(duration, latencies))


_CELLS: Final[Mapping[str, Callable[[FaultFigures], str]]] = {
    "fault": lambda fault: f"{fault.what} {fault.where}",
    "at": lambda fault: duration(fault.begin),
    "heal ordered after": lambda fault: "never" if fault.end is None else duration(fault.end - fault.begin),
    "new leader": lambda fault: _after(fault.new_leader_ns),
    "first answer": lambda fault: _after(fault.first_answer_ns),
    "p50 / p99 before": lambda fault: _pair(fault.before),
    "p50 / p99 during": lambda fault: _pair(fault.during),
    "p50 / p99 after": lambda fault: _pair(fault.after),
}
