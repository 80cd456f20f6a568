"""Planted bugs of truncation: a follower cuts the tail of its log that the leader's log does not have."""

from dataclasses import dataclass, replace
from typing import Any, Final

from upheaval_chaos.planted.bug import INVARIANTS, Area
from upheaval_chaos.planted.changes import replacing
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


@AREA.bug(INVARIANTS, "logs-equal", "commits-kept", "no-unexplained-end", is_rare=True)
def truncation_leaves_bytes(archive: Archive) -> None:
    """The archive sets the end of a recording that it cuts, and leaves the bytes after it in the file."""
    requests = archive._requests
    requests._context = replace(requests._context, storage=_Keeping(requests._context.storage))


@dataclass(frozen=True)
class _Keeping:
    """A storage, or a file, of which nothing is cut."""

    wrapped: Any

    def open(self, path: str, **keywords: Any) -> "_Keeping":
        return _Keeping(self.wrapped.open(path, **keywords))

    def truncate(self, length: int) -> None:
        """In place of the file's own."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)
