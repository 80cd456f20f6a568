"""Figures of a run, and the page that shows them. Needs no Spark."""

from upheaval.report.document import STYLE as STYLE
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
    lateness as lateness,
    measure_run as measure_run,
    member_spans as member_spans,
    snapshot_figures as snapshot_figures,
)
from upheaval.report.moments import Moment as Moment, Moments as Moments
from upheaval.report.page import SCRIPTS as SCRIPTS, MadeBy as MadeBy, page as page
from upheaval.report.scene import positions_of as positions_of, scene_of as scene_of
