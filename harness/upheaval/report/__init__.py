"""Figures of a run, and the page that shows them. Needs no Spark."""

from upheaval.report.drawing import WIDTH, duration
from upheaval.report.figures import (
    AROUND_NS,
    ELECTION,
    FOLLOWER,
    GAP_NS,
    LEADER,
    TIMERS_SERVICE,
    Bucket,
    FaultFigures,
    Figures,
    catch_ups,
    edges_of,
    lateness,
    measure_run,
    member_spans,
    snapshot_figures,
)
from upheaval.report.page import STYLE, page

__all__ = [
    "AROUND_NS",
    "ELECTION",
    "FOLLOWER",
    "GAP_NS",
    "LEADER",
    "STYLE",
    "TIMERS_SERVICE",
    "WIDTH",
    "Bucket",
    "FaultFigures",
    "Figures",
    "catch_ups",
    "duration",
    "edges_of",
    "lateness",
    "measure_run",
    "member_spans",
    "page",
    "snapshot_figures",
]
