"""Each rule that differs from Aeron's, on the same messages: the node's own, and Aeron's."""

from dataclasses import fields

import pytest

from support.election_script import ElectionScript
from support.election_texts import CANVASS, LEADER_LOG_REPLICATION, LEADER_READY
from upheaval_node.cluster.rules import AERON, OWN, ROWS, Rules, rules_named
from upheaval_node.errors import UsageError

VOTED_TWICE = """
    member term=0 at=1024
    wait 0
    1 asks for=1 at=1024
    0 asks for=2 at=1792
    wait 1000
    is CANVASS
    1 leads term=1 base=1024
"""
CUT_FOR_A_LATER_TERM = """
    member term=0 at=1024 consumed=512
    wait 0
    0 leads term=1 base=512
    error Truncating Cluster Log
    wait 10
    is CANVASS
    1 leads term=0 log-term=0 next=-1 next-base=-1 base=0 at=1024 commit=512
"""
# Member 1 has a longer log of an earlier term.
LONGER_OLDER_LOG = """
    member term=1 base=1024 at=2048 consumed=1024 persisted=3
    wait 0
    0 canvasses term=1 at=1536
    1 canvasses term=0 at=4096
    wait 510
    0 votes yes for=4 term=1 at=1536
    1 votes yes for=4 term=0 at=4096
    wait 0
"""
TERMS_WITHOUT_ENTRIES = f"""
    {LONGER_OLDER_LOG}
    0 canvasses term=2 at=1536
"""
PART_OF_A_REPLAY = """
    member term=1 at=2048 base=1024 consumed=0
    hold replay
    wait 0
    0 leads term=1 log-term=1 next=-1 next-base=-1 base=1024 at=2048 commit=2048
    wait 0
    reads term=0 base=0 at=96
    let replay to=1920
    wait 20
    is CANVASS
"""
NEXT = "sent NewLeadershipTerm to=0 log-leadership-term-id=2 next-leadership-term-id"


@pytest.mark.parametrize(
    ("rows", "text", "own", "aeron"),
    [
        ("E3", VOTED_TWICE, "is CANVASS", "is FOLLOWER_REPLAY"),
        ("E3", CUT_FOR_A_LATER_TERM, "is CANVASS", "is FOLLOWER_REPLAY"),
        ("E4", f"{LEADER_LOG_REPLICATION}\n 0 leads term=2 base=1024", "is INIT", "is LEADER_LOG_REPLICATION"),
        ("E4", f"{LEADER_LOG_REPLICATION}\n 0 committed term=2 at=1024", "is INIT", "is LEADER_LOG_REPLICATION"),
        ("E4", f"{LEADER_READY}\n 0 leads term=2 base=1024", "is INIT", "is LEADER_READY"),
        (
            "E5",
            f"{LEADER_LOG_REPLICATION}\n 0 asks for=9 term=0 at=4096\n wait 10010",
            "error a candidate of term 9",
            "is LEADER_LOG_REPLICATION",
        ),
        (
            "E6",
            "member term=0 at=1024\n wait 0\n 0 leads term=1 base=512 next-base=512",
            "error below the commit position",
            "error Truncating Cluster Log",
        ),
        (
            AERON,
            f"{LONGER_OLDER_LOG}\n wait 10",
            "is LEADER_LOG_REPLICATION",
            "sent CommitPosition to=0 log-position=2048",
        ),
        (
            "E8",
            f"{LEADER_LOG_REPLICATION}\n 0 canvasses at=1024\n 1 canvasses at=1024\n wait 10",
            "is LEADER_LOG_REPLICATION",
            "sent CommitPosition to=0 log-position=1024",
        ),
        (
            "E8",
            f"{CANVASS}\n 0 leads term=1 base=1024 commit=0\n wait 0\n 1 asks at=4096 for=2",
            "sent Vote to=1 vote=no",
            "unsent Vote",
        ),
        (
            "E8",
            PART_OF_A_REPLAY,
            "sent CanvassPosition to=0 log-leadership-term-id=1",
            "sent CanvassPosition to=0 log-leadership-term-id=0",
        ),
        (
            "E12",
            f"{CANVASS}\n 0 leads term=1 base=1024 commit=0\n wait 10010",
            "error no commit position",
            "is FOLLOWER_REPLAY",
        ),
        (
            "E19",
            TERMS_WITHOUT_ENTRIES,
            f"{NEXT}=2",
            f"{NEXT}=4",
        ),
    ],
)
def test_a_rule_is_ours_or_aerons(rows: str, text: str, own: str, aeron: str) -> None:
    ElectionScript(text, OWN).say(own)
    ElectionScript(text, rows).say(aeron)
    with pytest.raises(AssertionError):
        ElectionScript(text, OWN).say(aeron)


def test_the_ends_of_a_catch_up_and_of_lost_terms_are_rules_too() -> None:
    assert rules_named(OWN).has_caught_up(2)
    assert not rules_named("E15").has_caught_up(2)
    assert rules_named(OWN).lost_terms_go
    assert not rules_named("E13").lost_terms_go
    assert rules_named(OWN).terms_return
    assert not rules_named("E23").terms_return


def test_every_rule_has_a_row_and_aeron_takes_all() -> None:
    assert sorted(ROWS.values()) == sorted(field.name for field in fields(Rules))
    assert all(not getattr(rules_named(AERON), name) for name in ROWS.values())
    rules = rules_named("E3,E15")
    assert [row for row, name in ROWS.items() if not getattr(rules, name)] == ["E3", "E15"]


@pytest.mark.parametrize("value", ["", "E2", "E3,", "areon"])
def test_an_unknown_row_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="use upheaval, aeron, or rows of E3,E4"):
        rules_named(value)
