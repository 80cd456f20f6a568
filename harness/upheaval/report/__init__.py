"""Figures of a run, and what its page (`page`) draws of them. Needs no Spark, and no Jinja."""

from upheaval.report.figures import (
    AROUND_NS as AROUND_NS,
    CATCHING_UP as CATCHING_UP,
    ELECTION as ELECTION,
    FOLLOWER as FOLLOWER,
    GAP_NS as GAP_NS,
    LEADER as LEADER,
    TIMERS_SERVICE as TIMERS_SERVICE,
    Bucket as Bucket,
    FaultFigures as FaultFigures,
    Figures as Figures,
    catch_ups as catch_ups,
    duration as duration,
    edges_of as edges_of,
    gaps_at_ends as gaps_at_ends,
    kills_of as kills_of,
    lateness as lateness,
    measure_run as measure_run,
    member_spans as member_spans,
    snapshot_figures as snapshot_figures,
)
from upheaval.report.moments import Moment as Moment, Moments as Moments
from upheaval.report.scene import positions_of as positions_of, scene_of as scene_of
