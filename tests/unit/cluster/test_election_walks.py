"""Elections of one member from their begin to their end, as texts; positions and terms that they must not take back."""

import pytest

from support.election_script import ElectionScript
from support.election_texts import CANDIDATE_BALLOT, CANVASS, FOLLOWER_BALLOT, FOLLOWER_LOG_REPLICATION, NOMINATE

WALKS = {
    "EL-02": """
        # The appointed member canvasses, nominates itself, wins with all votes and leads.
        member term=0 at=1024 appointed=2 startup=yes
        wait 0
        0 canvasses term=0 at=1024
        1 canvasses term=0 at=1024
        wait 510
        is CANDIDATE_BALLOT
        0 votes yes for=1 term=0 at=1024
        1 votes yes for=1 term=0 at=1024
        hold append
        wait 10
        sent NewLeadershipTerm to=0 leadership-term-id=1 app-version=1 commit-position=1024
        0 appended term=1 at=1024
        wait 40
        is LEADER_READY
        sent NewLeadershipTerm to=1 leadership-term-id=1 log-position=1024 is-startup=yes
        let append
        wait 0
        is CLOSED
    """,
    "EL-04": """
        # Positions as good as its own of both others.
        member term=0 at=1024
        wait 10
        sent CanvassPosition to=0 log-leadership-term-id=0 log-position=1024 leadership-term-id=0
        0 canvasses term=0 at=1024
        wait 0
        is CANVASS
        1 canvasses term=0 at=1024
        wait 0
        is NOMINATE
    """,
    "EL-05": f"""{NOMINATE}
        1 asks term=0 at=1024 for=1
        sent Vote to=1 vote=yes candidate-term-id=1
        is FOLLOWER_BALLOT
    """,
    "EL-11": f"""{CANDIDATE_BALLOT}
        # A split vote, and the ballot of the term after it.
        0 votes yes for=1
        1 votes no for=1
        wait 1000
        is CANVASS
        wait 0
        0 canvasses term=0 at=1024
        1 canvasses term=0 at=1024
        wait 510
        is CANDIDATE_BALLOT
        0 votes yes for=2 term=0 at=1024
        1 votes yes for=2 term=0 at=1024
        wait 10
        is LEADER_LOG_REPLICATION
        hold append
        0 appended term=2 at=1024
        wait 40
        is LEADER_READY
        sent NewLeadershipTerm to=1 leadership-term-id=2 term-base-log-position=1024 log-position=1024
    """,
    "EL-12": f"""{FOLLOWER_BALLOT}
        # Nobody leads: canvass again, in the term of before.
        wait 990
        is FOLLOWER_BALLOT
        wait 10
        is CANVASS
        wait 0
        sent CanvassPosition to=1 leadership-term-id=0 log-leadership-term-id=0 log-position=1024
    """,
    "EL-14": f"""{FOLLOWER_LOG_REPLICATION}
        # One term behind: what is missing is copied, reported and replayed.
        let replicate
        wait 10
        sent AppendPosition to=0 log-position=2048 leadership-term-id=1
        0 committed term=1 at=2048
        wait 10
        is CANVASS
        sent CanvassPosition to=1 log-leadership-term-id=0 log-position=2048
        hold replay
        0 leads term=1 base=2048
        is FOLLOWER_REPLAY
    """,
}


@pytest.mark.parametrize("row", [pytest.param(row, marks=pytest.mark.parity(row)) for row in WALKS])
def test_a_walk_of_the_peers_tests(row: str) -> None:
    ElectionScript().say(WALKS[row])


@pytest.mark.parity("EL-14")
def test_the_term_that_was_copied_is_named_with_its_end() -> None:
    script = ElectionScript(WALKS["EL-14"])
    assert script.terms == [(0, 0, 2048), (1, 2048, -1)]


@pytest.mark.parity("EL-12")
def test_a_ballot_that_nobody_wins_names_no_term() -> None:
    script = ElectionScript(WALKS["EL-12"])
    assert script.log.leadership_term_id == 0
    assert script.terms == [(0, 0, -1)]


@pytest.mark.parity("EL-26")
@pytest.mark.parametrize("begin", [CANVASS, CANDIDATE_BALLOT, FOLLOWER_BALLOT])
def test_a_leadership_term_never_takes_back_a_commit_position(begin: str) -> None:
    script = ElectionScript(begin)
    seen = []
    for commit in (512, 768, 256, 1024, 0):
        # The leader of the ballot; of another log term, so that it is not followed yet.
        script.say(f"0 leads term=1 log-term=3 next=4 next-base=4096 base=4096 commit={commit}")
        seen.append(script.election.notified_commit_position)
    assert seen == sorted(seen)
    script.say("wait 0\n0 leads term=1 base=1024 commit=1024\n0 leads term=1 base=1024 commit=0")
    assert script.election.notified_commit_position == 1024
