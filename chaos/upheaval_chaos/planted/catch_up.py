"""Planted bugs of catch-up: a follower that reads a replay of its leader's log until it can join the live one."""

from collections.abc import Callable
from typing import Final

from upheaval_chaos.planted.bug import INVARIANTS, Area
from upheaval_chaos.planted.changes import replace_method, replacing
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.log_access import Progress
from upheaval_node.types import Now, Position

AREA: Final[Area] = Area("catch-up")


@AREA.bug("members-join")
def catch_up_not_served(module: ConsensusModule) -> None:
    """A leader replays nothing to a follower that lags."""
    replace_method(module._log.catchups, "start", lambda now, message, recording_id, session_id: None)  # noqa: ARG005


@AREA.bug(INVARIANTS, "commits-kept", is_rare=True)
def catch_up_reads_past_the_commit(module: ConsensusModule) -> None:
    """A follower that catches up reads what it has recorded, committed or not."""
    log = module._log
    catch_up = log.catch_up

    @replacing(log, "catch_up")
    def read_everything(now: Now, limit_position: Position, join_position: Position) -> Progress:
        return catch_up(now, max(limit_position, log.recording.position or limit_position), join_position)


@AREA.bug(INVARIANTS, "commits-kept", "votes-kept", "entries-in-term", is_rare=True)
def joined_term_not_named(module: ConsensusModule) -> None:
    """A follower records the log of a new term without naming the term in its recording log."""
    join = module._log.join_as_follower

    @replacing(module._log, "join_as_follower")
    def join_silently(now: Now, start: Position, name_term: Callable[[], None], *, is_startup: bool) -> bool:  # noqa: ARG001
        return join(now, start, lambda: None, is_startup=is_startup)
