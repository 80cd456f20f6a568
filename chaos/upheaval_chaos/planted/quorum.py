"""Planted bugs of the rule that a leader commits only what a quorum has recorded. Knows the consensus module."""

from collections.abc import Container

from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.types import LOG_START, Now, Position


def commit_without_a_quorum(module: ConsensusModule) -> None:
    """What this member has recorded counts as recorded by a quorum."""
    membership = module.membership

    def own_position(now: Now, log_terms: Container[int]) -> Position:  # noqa: ARG001 - in place of the membership's own
        return max(membership.own.log_position, LOG_START)

    membership.quorum_position = own_position  # type: ignore[method-assign]
