"""Which ends of processes that nobody told are explained, and by what."""

import json
from pathlib import Path

import pytest

from upheaval.checkers.trace_facts import facts_of_members
from upheaval.checkers.unexplained import check_ends
from upheaval.checkers.verdict import Verdict
from upheaval.records import Json, Manifest, RunFolder
from upheaval_chaos.record import FaultRecord

S = 10**9
EPOCH_MS = 1_700_000_000_000


def line(second: float, event: str = "process-start", *, moved_ms: int = 0, component: str = "all") -> dict[str, Json]:
    epoch_ms = EPOCH_MS + int(second * 1000) + moved_ms
    return {"ts": int(second * S), "epoch_ms": epoch_ms, "event": event, "component": component}


def judged(path: Path, *traces: list[dict[str, Json]], fault: FaultRecord | None = None) -> Verdict:
    run = RunFolder(path)
    run.create(Manifest("run-1", "process", len(traces), "test", 0))
    for member_id, lines in enumerate(traces):
        run.member(member_id).path.mkdir()
        run.member(member_id).trace.write_text("".join(json.dumps(each) + "\n" for each in lines))
    if fault is not None:
        run.add_fault(fault)
    facts = facts_of_members(run, len(traces))
    return check_ends(run, run.read_manifest(), facts).verdict


@pytest.mark.parametrize(
    ("other_ends", "other_starts", "verdict"),
    [(2.5, 6, Verdict.UNKNOWN), (7, 6, Verdict.INVALID), (2.5, None, Verdict.INVALID)],
    ids=["all down", "another one ran on", "another one stayed down"],
)
def test_an_untold_end_of_a_whole_cluster_may_be_the_harness(
    other_ends: float, other_starts: float | None, verdict: Verdict, tmp_path: Path
) -> None:
    other = [line(1), line(2.5, "role"), line(other_ends, "role")]
    if other_starts is not None and other_starts > other_ends:
        other += [line(other_starts), line(8, "role")]
    assert judged(tmp_path, [line(1), line(2, "role"), line(5), line(8, "role")], other) is verdict


@pytest.mark.parametrize(("moved_ms", "verdict"), [(0, Verdict.INVALID), (3_600_000, Verdict.VALID)])
def test_a_machine_that_was_started_anew_explains_an_untold_end(
    moved_ms: int, verdict: Verdict, tmp_path: Path
) -> None:
    """By its wall clock: the monotonic one may have come further than before."""
    again = [line(5, moved_ms=moved_ms), line(8, "role", moved_ms=moved_ms)]
    assert judged(tmp_path, [line(1), line(2, "role"), *again], [line(1), line(9, "role")]) is verdict


@pytest.mark.parametrize(
    ("hit", "ended", "verdict"),
    [
        (None, "consensus", Verdict.VALID),
        ("consensus", "consensus", Verdict.VALID),
        ("service", "service-0", Verdict.VALID),
        ("service", "consensus", Verdict.INVALID),
        ("consensus", "service-0", Verdict.INVALID),
    ],
)
def test_a_kill_of_one_component_explains_no_end_of_another(
    hit: str | None, ended: str, verdict: Verdict, tmp_path: Path
) -> None:
    killed = [line(second, event, component=ended) for second, event in ((1, "process-start"), (2, "role"))]
    again = [line(second, event, component=ended) for second, event in ((5, "process-start"), (8, "role"))]
    fault = FaultRecord("kill", "member-0", 3 * S, 3 * S, members=(0,), component=hit)
    assert judged(tmp_path, [*killed, *again], [line(1), line(9, "role")], fault=fault) is verdict
