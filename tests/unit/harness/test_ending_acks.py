"""Who has to acknowledge the end of a cluster: the rule on values, without files."""

import pytest

from upheaval.checkers.evidence.troubles import Trouble
from upheaval.checkers.protocol.ending_acks import EndingAcks, Life, problems
from upheaval_node.types import S

TIMEOUT_NS = 5 * S
POSITION, TERM = 640, 3


def ended(member_id: int, ended_ns: int, acks: EndingAcks) -> Life:
    return Life(member_id, POSITION, TERM, TERM, ended_ns=ended_ns, acks=acks)


def judged(*troubles: Trouble, has_acknowledged: bool = False) -> list[tuple[int, str]]:
    """Of a leader that announced the end at 10 s and waited in vain, and a follower that ended a second later."""
    leader = ended(0, 15 * S, EndingAcks(announced=POSITION, announced_ns=10 * S, term=TERM))
    follower = ended(1, 11 * S, EndingAcks(has_acknowledged=has_acknowledged))
    return list(problems({0: leader, 1: follower}, 2, TIMEOUT_NS, troubles))


def test_a_follower_acknowledges_before_it_ends() -> None:
    assert judged() == [(1, "did not acknowledge that to its leader")]
    assert judged(has_acknowledged=True) == []


@pytest.mark.parametrize("member", [0, 1])
def test_a_fault_of_either_side_may_keep_it_from_that_before_its_end(member: int) -> None:
    assert judged(Trouble(9 * S, 9 * S + S // 2, (member,))) == []
    assert judged(Trouble(11 * S, 12 * S, (member,))) == []


@pytest.mark.parametrize(
    "trouble", [Trouble(12 * S, 14 * S), Trouble(12 * S, 14 * S, (1,)), Trouble(10 * S, 12 * S, (2,))]
)
def test_one_after_its_end_or_of_others_cannot(trouble: Trouble) -> None:
    assert judged(trouble) == [(1, "did not acknowledge that to its leader")]
