"""Planted bugs of durability: what a member says of itself before it is safe from a power cut."""

from dataclasses import replace
from typing import Final

from upheaval_chaos.planted.bug import INVARIANTS, Area
from upheaval_node.archive.archive import Archive
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.types import Position, TermId

AREA: Final[Area] = Area("durability")


@AREA.bug(INVARIANTS, "votes-kept")
def vote_not_persisted(module: ConsensusModule) -> None:
    """A member keeps the term of its vote in memory only."""
    state = module.node_state

    def keep(term: TermId, log_position: Position, timestamp_ms: int) -> None:
        state._candidate_term_id = term
        state._log_position = log_position
        state._timestamp = timestamp_ms

    state._store = keep  # type: ignore[method-assign]


@AREA.bug(INVARIANTS, "votes-kept")
def vote_not_synced(module: ConsensusModule) -> None:
    """A member writes the term of its vote, and votes before the disk has it."""
    module.node_state._sync_level = 0


@AREA.bug(INVARIANTS, "commits-kept", "acknowledged-not-lost", "logs-equal")
def ack_before_the_write(archive: Archive) -> None:
    """The archive says that it has recorded what no disk has."""
    context = archive._recorder._context
    archive._recorder._context = replace(context, settings=replace(context.settings, file_sync_level=0))


@AREA.bug(
    INVARIANTS,
    "commits-kept",
    "entries-in-term",
    "snapshots-taken",
    "standbys-known",
    "ends-at-one-position",
    is_rare=True,
)
def recording_log_not_synced(module: ConsensusModule) -> None:
    """A member names terms and snapshots in its recording log, and goes on before the disk has them."""
    module.recording_log._sync_level = 0


@AREA.bug(INVARIANTS, "commits-kept", "acknowledged-not-lost", "no-unexplained-end", is_rare=True)
def catalog_not_synced(archive: Archive) -> None:
    """The archive writes which recordings it has, and does not wait for the disk."""
    archive._context.catalog._sync_level = 0
