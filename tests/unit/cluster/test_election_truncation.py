"""A new leader's log that is shorter: what was not committed is cut, what was committed ends the member instead."""

import pytest

from support.lone_member import POSITION, LoneMember
from upheaval_node.errors import PeerError, TerminationError

SHORTER = POSITION - 96


def test_a_tail_that_was_not_committed_is_to_be_cut() -> None:
    member = LoneMember(log_position=SHORTER)
    with pytest.raises(PeerError, match=f"Truncating Cluster Log - append position {POSITION} to {SHORTER}"):
        member.hears_leader(1, 1, SHORTER, commit=SHORTER)


def test_a_leader_whose_log_ends_below_the_commit_position_ends_the_member() -> None:
    member = LoneMember(log_position=POSITION)
    with pytest.raises(TerminationError, match="below the commit position") as ended:
        member.hears_leader(1, 1, SHORTER, commit=SHORTER)
    assert not ended.value.expected
