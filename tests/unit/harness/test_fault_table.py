"""The faults of a run as a table: what none of them has is no column, and they are in the order of their begins."""

from dataclasses import replace
from pathlib import Path

from support.built_runs import good_run
from upheaval.report import FaultFigures, measure_run
from upheaval.report.fault_table import fault_table
from upheaval_node.types import MS, S

KILL = FaultFigures("kill", "member-0", 2 * S, 3 * S, "gone", None, None, None, 250 * MS, None)
CUT = FaultFigures("cut", "link 0->1", 1 * S, None, "0 bytes", None, None, None, None, None)


def test_columns_without_a_value_are_left_out_and_rows_are_in_the_order_of_time(tmp_path: Path) -> None:
    figures = replace(measure_run(good_run().write(tmp_path)), faults=[KILL, CUT])
    table = fault_table(figures)
    assert table.heads == ("fault", "at", "heal ordered after", "new leader")
    assert table.rows == [
        ("0 bytes", ("cut link 0->1", "1 s", "never", "-")),
        ("gone", ("kill member-0", "2 s", "1 s", "after 250 ms")),
    ]
    loaded = replace(figures, faults=[replace(KILL, during=(1.0 * MS, 2.0 * MS))])
    assert fault_table(loaded).heads == (*table.heads, "p50 / p99 during")
