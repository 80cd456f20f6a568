"""Snapshots, ends and starts of processes on the time line of a run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from support.built_runs import good_run
from upheaval.checkers.verdict import Report
from upheaval.records import AdminCommand, ControlRecord, Json, Outcome, TraceEvent
from upheaval.report import measure_run, scene_of
from upheaval.report.page import page
from upheaval.report.turning_points import turning_points
from upheaval_chaos.record import Proof
from upheaval_node.types import S


def event(line: int, second: float, name: str, **fields: Json) -> TraceEvent:
    return TraceEvent(line, round(second * S), name, {"component": "all", **fields})


def snapshot(second: float, position: int) -> list[TraceEvent]:
    return [
        event(3, second, "module_state", old="ACTIVE", new="SNAPSHOT"),
        event(4, second + 0.1, "service-ack", log_position=position),
        event(5, second + 0.2, "module_state", old="SNAPSHOT", new="ACTIVE"),
    ]


def test_a_snapshot_of_all_members_is_one_mark_with_its_position() -> None:
    first, second = turning_points({0: snapshot(1, 64), 1: [*snapshot(1.1, 64), *snapshot(6, 96)]}, [])
    assert (str(first), first.begin_ns, first.end_ns) == ("snapshot at 64, members 0, 1", S, round(1.3 * S))
    assert first.evidence == "member-0/trace.jsonl:3; member-1/trace.jsonl:3"
    assert str(second) == "snapshot at 96, member 1"


def test_a_snapshot_that_was_ordered_is_marked_once() -> None:
    order = ControlRecord(AdminCommand.SNAPSHOT, S // 2, 2 * S, 0, {}, Proof(True, "taken"))
    assert [str(point) for point in turning_points({0: [*snapshot(1, 64), *snapshot(6, 96)]}, [order])] == [
        "snapshot at 96, member 0"
    ]


def test_a_snapshot_that_a_process_did_not_finish_is_none() -> None:
    begun, acknowledged, ended = snapshot(1, 64)
    assert turning_points({0: [begun, acknowledged, event(9, 1.1, "process-start"), ended]}, []) == []


def test_ends_with_and_without_a_failure_and_the_starts_between_are_marks() -> None:
    lives = [
        event(1, 0, "process-start"),
        event(2, 13, "process-end", status=0, reason=""),
        event(3, 22, "process-start"),
        event(4, 22, "process-end", status=1, reason="the snapshot at 10720 is damaged"),
    ]
    of_archive = [event(1, 0.5, "process-end", status=0, component="archive")]
    points = turning_points({0: lives, 1: lives, 2: of_archive}, [])
    assert [str(point) for point in points] == [
        "stop, members 0, 1",
        "start, members 0, 1",
        "end with status 1, members 0, 1",
    ]
    assert points[-1].evidence.startswith("member-0/trace.jsonl:4: the snapshot at 10720 is damaged; member-1/")


def test_they_are_orders_of_the_scene_beside_commands_in_the_order_of_time(tmp_path: Path) -> None:
    built = good_run()
    for member_id, at in ((0, 300_000), (1, 310_000)):
        ended = {"ts": at, "event": "process-end", "component": "all", "status": 0}
        built.traces[member_id].append(json.dumps(ended))
    run = built.write(tmp_path)
    scene = scene_of(run, run.read_manifest(), measure_run(run), [])
    assert [(one["what"], one["end"] - one["begin"]) for one in scene["orders"]] == [("stop, members 0, 1", 10_000)]


@pytest.mark.parametrize(("is_asked", "text"), [(True, "3 s"), (False, "none")])
def test_the_longest_time_without_an_answer_may_be_the_end_of_the_run(
    is_asked: bool, text: str, tmp_path: Path
) -> None:
    built = good_run(15)  # all of them have an answer
    if is_asked:
        last = built.operations[-1]
        built.operations[-1] = replace(last, complete_ns=None, outcome=Outcome.UNKNOWN, result=None, position=None)
    built.traces[0].append(json.dumps({"ts": 3 * S, "event": "send"}))
    run = built.write(tmp_path)
    figures = measure_run(run)
    scene = scene_of(run, run.read_manifest(), figures, [])
    shown = page(run.read_manifest(), Report("run", (), ()), figures, scene=scene)
    assert f"<b>{text}</b><span>longest time without an answer</span>" in shown


@pytest.mark.parametrize(("count", "is_rated"), [(1, False), (40, True)])
def test_a_rate_needs_answers(count: int, is_rated: bool, tmp_path: Path) -> None:
    run = good_run(count).write(tmp_path)
    figures = measure_run(run)
    scene = scene_of(run, run.read_manifest(), figures, [])
    shown = page(run.read_manifest(), Report("run", (), ()), figures, scene=scene)
    assert ("answers a second</span>" in shown) is is_rated
