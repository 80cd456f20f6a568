"""How bugs change agents: by replacing a method of one object, or by changing each election of a member at its
start.
"""

from collections.abc import Callable
from typing import Any

from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.election import Election
from upheaval_node.types import MemberId, Now


def replace_method(owner: object, name: str, method: Callable[..., Any]) -> None:
    """Replace a method of this object only, not of its class. The object must have the method."""
    assert callable(getattr(owner, name)), name
    setattr(owner, name, method)


def change_elections(module: ConsensusModule, change: Callable[[Election], None]) -> None:
    """Change each election of a member before its first turn."""
    elections = module._elections
    start = elections.start

    def start_election(now: Now, *, is_node_startup: bool, absent_leader_id: MemberId, reason: str) -> None:
        start(now, is_node_startup=is_node_startup, absent_leader_id=absent_leader_id, reason=reason)
        assert module.election is not None
        change(module.election)

    replace_method(elections, "start", start_election)
