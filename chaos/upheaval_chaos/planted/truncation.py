"""Planted bugs of truncation: a follower cuts the tail of its log that the leader's log does not have."""

from typing import Final

from upheaval_chaos.planted.bug import INVARIANTS, Area
from upheaval_chaos.planted.changes import replace_method, replacing
from upheaval_node.archive.archive import Archive
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.steps import StepGenerator
from upheaval_node.types import Position

AREA: Final[Area] = Area("truncation")


@AREA.bug("members-join", "no-unexplained-end", "logs-complete")
def truncation_skipped(module: ConsensusModule) -> None:
    """A follower says that it has cut its log, and has not."""
    recording = module._log.recording

    @replacing(recording, "truncate")
    def truncate(position: Position) -> StepGenerator[None]:
        recording.stop_position = position
        yield from ()


@AREA.bug(INVARIANTS, "commits-kept", "acknowledged-not-lost")
def truncation_too_deep(module: ConsensusModule) -> None:
    """A follower that cuts its log cuts all of its last term, committed or not."""
    recording = module._log.recording
    truncate = recording.truncate

    @replacing(recording, "truncate")
    def truncate_term(position: Position) -> StepGenerator[None]:
        last = module.recording_log.find_last_term()
        yield from truncate(position if last is None else min(position, last.term_base_log_position))


@AREA.bug(INVARIANTS, "members-join", "no-unexplained-end", "logs-complete", "logs-equal")
def cut_missing_in_the_catalog(archive: Archive) -> None:
    """The archive cuts the bytes of a recording, and its catalog names the end as before."""
    replace_method(archive._context.catalog, "record_end", lambda entry, position, timestamp: None)  # noqa: ARG005
