"""How bugs change agents: by replacing a method of one object, or by changing each election of a member at its
start.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.election import Election
from upheaval_node.types import MemberId, Now

M = TypeVar("M", bound=Callable[..., Any])


def replace_method(owner: object, name: str, method: Callable[..., Any]) -> None:
    """Replace a method of this object only, not of its class. The object must have the method."""
    assert callable(getattr(owner, name)), name
    setattr(owner, name, method)


def replacing(owner: object, name: str) -> Callable[[M], M]:
    """A decorator: the function replaces a method of this object, as `replace_method` does."""

    def replaced(method: M) -> M:
        replace_method(owner, name, method)
        return method

    return replaced


def in_elections(module: ConsensusModule) -> Callable[[Callable[[Election], None]], None]:
    """A decorator: the function changes each election of a member before its first turn."""

    def changed(change: Callable[[Election], None]) -> None:
        start = module._elections.start

        @replacing(module._elections, "start")
        def start_election(now: Now, *, is_node_startup: bool, absent_leader_id: MemberId, reason: str) -> None:
            start(now, is_node_startup=is_node_startup, absent_leader_id=absent_leader_id, reason=reason)
            assert module.election is not None
            change(module.election)

    return changed
