"""Spark's figures are those that this process computes, number for number."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.built_runs import good_run, without_answers
from upheaval.errors import UsageError
from upheaval.records import RunFolder
from upheaval.report import Figures, measure_run
from upheaval.report.figures import DOWN
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.types import S
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.lake import open_lake
from upheaval_pipeline.measure import measure, measure_lake


def caught_up(at: int) -> list[str]:
    """What a member traces that gets 1024 bytes of the log within a quarter of a second."""
    line = '{"ts":%d,"member":1,"event":"election_state","state":"%s","append_position":%d}'
    states = [("CANVASS", 0, 640), ("FOLLOWER_CATCHUP_INIT", 10, 640), ("FOLLOWER_CATCHUP", 20, 640)]
    states += [("FOLLOWER_LOG_INIT", 10 + S // 4, 1664), ("CLOSED", S // 2, 1664)]
    return [line % (at + later, state, position) for state, later, position in states]


def test_the_figures_are_equal(tmp_path: Path, spark: Any) -> None:
    built = good_run(700)
    for index, o in enumerate(built.operations[300:], start=300):
        late = None if o.complete_ns is None else o.complete_ns + S
        built.operations[index] = replace(o, invoke_ns=o.invoke_ns + S, complete_ns=late)
    term = '{"ts":%d,"member":2,"event":"leadership_term","leadership_term_id":1,"leader_member_id":2}'
    start = '{"ts":%d,"member":2,"event":"process-start"}'
    other = '{"ts":%d,"member":2,"event":"send"}'
    built.traces[1] += caught_up(S)
    built.traces[2] += [start % 900, other % 1000, start % (S // 3), other % (S // 2 - 1), term % (S // 2)]
    run = built.write(tmp_path)
    run.add_fault(FaultRecord("kill", "member-0", 200_000, 210_000, S, S + 1))
    run.add_fault(FaultRecord("kill", "member-2", 1001, S // 5, inject_proof=Proof(True, "gone"), members=(2,)))
    run.add_fault(FaultRecord("pause", "member-1", 100_000, 110_000))
    (figures,) = measure(spark, [tmp_path])
    assert isinstance(figures, Figures)
    assert len(figures.gaps) == 2  # the second to the end of the run
    assert figures.faults[0].new_leader_ns is not None
    assert [(one.member, one.rate) for one in figures.catch_ups] == [(1, 4096.0)]
    assert [span.end - span.begin for span in figures.members[2] if span.state == DOWN][-1] == S // 3 - S // 5
    assert figures == measure_run(run)


def test_a_member_that_the_kernel_ended_is_down(tmp_path: Path, spark: Any) -> None:
    built = good_run()
    built.traces[2] = ['{"ts":900,"member":2,"event":"process-start"}', '{"ts":1000,"member":2,"event":"send"}']
    run = built.write(tmp_path)
    ended = Proof(True, "the kernel ended 1 process of member 2 for want of memory")
    run.add_fault(FaultRecord("memory-limit", "x", 950, 960, S, S, Proof(True, "met"), ended, members=(2,)))
    (figures,) = measure(spark, [tmp_path])
    assert isinstance(figures, Figures)
    assert figures.members[2][-1].state == DOWN
    assert figures == measure_run(run)


def test_a_run_without_operations_has_figures(tmp_path: Path, spark: Any) -> None:
    built = good_run()
    built.operations.clear()
    run = built.write(tmp_path)
    assert list(measure(spark, [tmp_path])) == [measure_run(run)]


@pytest.mark.parametrize("answered", [0, 5])
def test_the_figures_are_equal_where_requests_get_no_answer(answered: int, tmp_path: Path, spark: Any) -> None:
    built = without_answers(answered)
    run = built.write(tmp_path / "run")
    (figures,) = measure(spark, [tmp_path / "run"])
    assert isinstance(figures, Figures)
    assert len(figures.gaps) == 1
    assert figures == measure_run(run)


def test_the_figures_are_equal_where_a_clock_began_anew(tmp_path: Path, spark: Any) -> None:
    run = good_run().write(tmp_path)
    with run.member(1).trace.open("a") as trace:
        trace.write(f'{{"ts":{3 * S},"event":"send"}}\n{{"ts":7,"event":"process-start"}}\n')
    (figures,) = measure(spark, [tmp_path])
    assert isinstance(figures, Figures)
    assert figures == measure_run(run)
    assert figures.length_ns > 2 * S


def test_many_runs_have_the_figures_of_each_and_a_malformed_line_is_named(tmp_path: Path, spark: Any) -> None:
    folders = [tmp_path / str(number) for number in range(3)]
    for number, folder in enumerate(folders):
        built = good_run(100 + 50 * number)
        built.manifest = replace(built.manifest, run_id=f"run-{number}", service=("", "timers", "")[number])
        built.traces[1] += caught_up(number * S)
        run = built.write(folder)
        run.add_fault(FaultRecord("kill", "member-0", 200_000 + number, 210_000, S, S + 1))
    (folders[1] / "faults.jsonl").write_text("{}\n")
    lake = str(tmp_path / "lake")
    ingest(spark, folders, lake)
    opened = open_lake(lake)
    of_lake = list(measure_lake(spark, opened, opened.runs("runs")))
    of_folders = list(measure(spark, folders))
    for first, bad, last in (of_lake, of_folders):
        assert [first, last] == [measure_run(RunFolder(folders[number])) for number in (0, 2)]
        assert isinstance(bad, UsageError)
        assert "faults.jsonl:1: " in str(bad)
