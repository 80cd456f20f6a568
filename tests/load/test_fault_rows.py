"""The tab of faults on locust's page: each fault of the run at its wall time, beside what locust itself answers."""

import json
from datetime import UTC, datetime
from pathlib import Path

from upheaval.load.fault_rows import TAB, with_faults
from upheaval.records import RunFolder
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.types import S

NOW = datetime(2026, 1, 1, 12, 0, 10, tzinfo=UTC)


def test_each_fault_is_at_its_wall_time_beside_what_locust_answers(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    gone, back = Proof(True, "gone: process 7"), Proof(True, "process 8")
    run.add_fault(FaultRecord("kill", "member-0", 90 * S, 90 * S, 92 * S, 93 * S, gone, back))
    run.add_fault(FaultRecord("cut", "link client > member-1", 95 * S, 95 * S, inject_proof=Proof(True, "0 bytes")))
    answer = json.loads(with_faults('{"user_count": 3}', run, 100 * S, NOW))
    assert answer["user_count"] == 3
    (stats,) = answer["extended_stats"]
    (table,) = TAB["extended_tables"]
    assert stats["key"] == table["key"] == TAB["extended_tabs"][0]["key"]
    assert [list(row) for row in stats["data"]] == [[column["key"] for column in table["structure"]]] * 2
    assert [list(row.values()) for row in stats["data"]] == [
        ["12:00:00", "kill member-0", "3.0 s", "gone: process 7; healed: process 8"],
        ["12:00:05", "cut link client > member-1", "not yet", "0 bytes"],
    ]


def test_a_run_without_faults_has_none(tmp_path: Path) -> None:
    answer = json.loads(with_faults("{}", RunFolder(tmp_path), 0, NOW))
    assert [stats["data"] for stats in answer["extended_stats"]] == [[]]
