"""Planted bugs of truncation: a follower cuts the tail of its log that the leader's log does not have."""

from typing import Final

from upheaval_chaos.planted.bug import INVARIANTS, Area
from upheaval_chaos.planted.changes import replace_method, replacing
from upheaval_node.archive.archive import Archive
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.steps import StepGenerator
from upheaval_node.types import NULL_TERM_ID, Position, TermId

AREA: Final[Area] = Area("truncation")


@AREA.bug("members-join", "no-unexplained-end", "logs-complete")
def truncation_skipped(module: ConsensusModule) -> None:
    """A follower says that it has cut its log, and has not."""
    recording = module._log.recording

    @replacing(recording, "truncate")
    def truncate(position: Position) -> StepGenerator[None]:
        recording.stop_position = position
        yield from ()


@AREA.bug(INVARIANTS, "votes-kept", "entries-in-term", "members-join", is_rare=True)
def cut_terms_stay_named(module: ConsensusModule) -> None:
    """A follower that cuts its log leaves the terms in its recording log that the cut part belonged to."""
    log = module.recording_log

    @replacing(log, "cut_terms")
    def last_term(position: Position) -> TermId:  # noqa: ARG001 - in place of the recording log's own
        last = log.find_last_term()
        return NULL_TERM_ID if last is None else last.leadership_term_id


@AREA.bug(INVARIANTS, "members-join", "no-unexplained-end", "logs-complete", "logs-equal")
def cut_missing_in_the_catalog(archive: Archive) -> None:
    """The archive cuts the bytes of a recording, and its catalog names the end as before."""
    replace_method(archive._context.catalog, "record_end", lambda entry, position, timestamp: None)  # noqa: ARG005
