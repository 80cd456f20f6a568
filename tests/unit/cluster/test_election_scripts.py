"""What an election makes of each message and of time, as texts. Aeron's default time-outs."""

import pytest

from support.election_script import ElectionScript
from support.election_texts import (
    CANDIDATE_BALLOT,
    CANVASS,
    FOLLOWER_BALLOT,
    FOLLOWER_LOG_REPLICATION,
    FOLLOWER_REPLAY,
    LEADER_INIT,
    LEADER_LOG_REPLICATION,
    LEADER_READY,
    LEADER_REPLAY,
    NOMINATE,
)
from upheaval_node.cluster.election_states import ElectionState, Role
from upheaval_node.protocol import cluster_messages as cm

CANDIDACY = {
    "at the start a quorum is enough after the startup canvass": """
        member term=0 at=1024 startup=yes
        wait 0
        0 canvasses term=0 at=1024
        wait 59990
        is CANVASS
        wait 10
        is NOMINATE
    """,
    "later a quorum is enough after the leader heartbeat time-out": f"""{CANVASS}
        0 canvasses term=0 at=1024
        wait 9990
        is CANVASS
        wait 10
        is NOMINATE
    """,
    "alone it canvasses for ever": f"""{CANVASS}
        wait 100000
        is CANVASS
    """,
    "a longer log of another member keeps it from being a candidate of all": f"""{CANVASS}
        0 canvasses term=0 at=1024
        1 canvasses term=0 at=1056
        wait 9980
        is CANVASS
        wait 20
        is NOMINATE
    """,
    "two better logs keep it from being a candidate at all": f"""{CANVASS}
        0 canvasses term=1 at=512
        1 canvasses term=0 at=1056
        wait 20000
        is CANVASS
    """,
    "another member is appointed: it never nominates itself but votes": """
        member term=0 at=1024 appointed=1
        wait 0
        0 canvasses term=0 at=1024
        1 canvasses term=0 at=1024
        wait 20000
        is CANVASS
        1 asks term=0 at=1024 for=1
        sent Vote to=1 vote=yes
        is FOLLOWER_BALLOT
    """,
    "it is appointed": """
        member term=0 at=1024 appointed=2
        wait 0
        0 canvasses term=0 at=1024
        1 canvasses term=0 at=1024
        wait 0
        is NOMINATE
    """,
    "without the leader that closed in good order the rest is unanimous, in canvass and ballot": """
        member term=0 at=1024 gracefully-closed=0
        wait 0
        1 canvasses term=0 at=1024
        wait 510
        is CANDIDATE_BALLOT
        1 votes yes for=1
        wait 0
        is LEADER_LOG_REPLICATION
    """,
    "a leader that closed in good order counts again once it canvasses": """
        member term=0 at=1024 gracefully-closed=0
        wait 0
        0 canvasses term=0 at=2048
        1 canvasses term=0 at=1024
        wait 500
        is CANVASS
    """,
    "of two members one of which closed in good order nobody leads": """
        member members=2 term=0 at=1024 gracefully-closed=0
        wait 60000
        is CANVASS
    """,
    "while it nominates it goes on canvassing": f"""{NOMINATE}
        sent CanvassPosition to=0
        wait 0
        sent CanvassPosition to=0 log-leadership-term-id=0 log-position=1024
        is NOMINATE
    """,
}

BALLOT = {
    "all votes win at once": f"""{CANDIDATE_BALLOT}
        0 votes yes for=1
        wait 0
        is CANDIDATE_BALLOT
        1 votes yes for=1
        wait 0
        is LEADER_LOG_REPLICATION
    """,
    "the votes of a quorum win after the election time-out": f"""{NOMINATE}
        wait 150
        is CANDIDATE_BALLOT
        0 votes yes for=1
        wait 800
        is CANDIDATE_BALLOT
        wait 200
        is LEADER_LOG_REPLICATION
    """,
    "one refusal defeats a quorum; the next ballot has the next term": f"""{CANDIDATE_BALLOT}
        0 votes yes for=1
        1 votes no for=1
        wait 1000
        is CANVASS
        wait 0
        0 canvasses term=0 at=1024
        1 canvasses term=0 at=1024
        wait 510
        sent RequestVote to=1 candidate-term-id=2
        0 votes yes for=2
        1 votes yes for=2
        wait 0
        is LEADER_LOG_REPLICATION
    """,
    "votes for another term or another candidate, or of a stranger, do not count": f"""{CANDIDATE_BALLOT}
        0 votes yes for=2
        0 votes yes for=1 of=1
        7 votes yes for=1
        wait 1000
        is CANVASS
    """,
    "a vote outside a ballot does nothing": f"""{CANVASS}
        0 votes yes for=1
        wait 0
        is CANVASS
    """,
    "a request that could not be sent is sent again": f"""{NOMINATE}
        unreachable 0
        wait 500
        sent RequestVote to=1
        unsent RequestVote to=0
        reachable 0
        wait 0
        sent RequestVote to=0 candidate-term-id=1
    """,
}

VOTES = {
    "a term that is not later is refused": """
        member term=0 at=1024 persisted=3
        wait 0
        0 asks term=0 at=1024 for=3
        sent Vote to=0 vote=no candidate-term-id=3 candidate-member-id=0 follower-member-id=2
        is CANVASS
    """,
    "a shorter log is refused": f"""{CANVASS}
        0 asks term=0 at=992 for=1
        sent Vote to=0 vote=no log-leadership-term-id=0 log-position=1024
        is CANVASS
    """,
    "the second request for the same term is refused, and the ballot's time does not begin anew": f"""{FOLLOWER_BALLOT}
        wait 600
        0 asks term=0 at=1024 for=1
        sent Vote to=0 vote=no
        1 asks term=0 at=1024 for=2
        sent Vote to=1 vote=yes candidate-term-id=2
        wait 400
        is CANVASS
    """,
    "a stranger is not answered": f"""{CANVASS}
        7 asks term=0 at=1024 for=1
        unsent Vote
    """,
    "in INIT nobody is answered": f"""{CANVASS}
        hold prepare
        fail tick
        0 asks term=0 at=1024 for=1
        0 canvasses term=0 at=1024
        0 leads term=1 base=1024
        0 appended term=0 at=1024
        0 committed term=0 at=1024
        unsent Vote
        is INIT
        let prepare
        wait 0
        is CANVASS
    """,
    "who follows answers a worse log and is silent to a better one": f"""{FOLLOWER_REPLAY}
        1 asks term=0 at=512 for=2
        sent Vote to=1 vote=no
        1 asks term=1 at=4096 for=3
        unsent Vote
        is FOLLOWER_REPLAY
    """,
    "who leads refuses a worse log and tells of its term": f"""{LEADER_REPLAY}
        sent NewLeadershipTerm to=1 log-leadership-term-id=0
        1 asks term=-1 at=0 for=2
        sent Vote to=1 vote=no
        sent NewLeadershipTerm to=1 log-leadership-term-id=-1 next-leadership-term-id=0 leadership-term-id=1
        is LEADER_REPLAY
    """,
    "who leads is silent to a log as good as its own": f"""{LEADER_REPLAY}
        1 asks term=1 at=1024 for=2
        unsent Vote
        is LEADER_REPLAY
    """,
}

STAYING = {
    "a leader without a quorum waits for one": f"""{LEADER_LOG_REPLICATION}
        wait 100000
        is LEADER_LOG_REPLICATION
    """,
    "a leader without a quorum is elected anew once a later candidate was seen": f"""{LEADER_LOG_REPLICATION}
        1 asks term=1 at=1024 for=5
        unsent Vote
        wait 9980
        is LEADER_LOG_REPLICATION
        wait 20
        error a candidate of term 5 was seen
        wait 10
        0 canvasses term=1 at=1024
        1 canvasses term=1 at=1024
        wait 510
        sent RequestVote to=0 candidate-term-id=6
    """,
    "a leader that is ready stays ready until the log takes its first entry": f"""{LEADER_READY}
        wait 5000
        is LEADER_READY
        let append
        wait 0
        is CLOSED
    """,
    "a member bound by a vote in a later term follows no leader of an earlier one": """
        member term=0 at=1024
        wait 0
        1 asks term=0 at=1024 for=2
        wait 1000
        is CANVASS
        0 leads term=1 base=1024
        is CANVASS
        1 leads term=2 log-term=0 base=1024
        is FOLLOWER_REPLAY
    """,
}

TERMS = {
    "a leader of another term than that of the ballot is ignored": f"""{FOLLOWER_BALLOT}
        0 leads term=2 log-term=0 base=1024
        is FOLLOWER_BALLOT
    """,
    "the leader of the ballot with another log term: canvass again": f"""{FOLLOWER_BALLOT}
        0 leads term=1 log-term=-1 base=1024
        is CANVASS
    """,
    "the same for a candidate": f"""{CANDIDATE_BALLOT}
        0 leads term=1 log-term=-1 base=1024
        is CANVASS
    """,
    "in CANVASS another log term is ignored": f"""{CANVASS}
        0 leads term=5 log-term=3 base=1024
        is CANVASS
    """,
    "in NOMINATE no leader is followed": f"""{NOMINATE}
        0 leads term=1 base=1024
        is NOMINATE
    """,
    "strangers and echoes are ignored": f"""{CANVASS}
        7 leads term=1 base=1024
        2 leads term=0 log-term=0 base=1024
        is CANVASS
    """,
    "a leader that names no next term to who is behind": f"""{CANVASS}
        0 leads term=1 base=2048 next=-1 next-base=-1
        error no next term is named
        is INIT
    """,
    "who canvasses with an earlier log term is told the next one of it": f"""{LEADER_REPLAY}
        sent NewLeadershipTerm to=1 log-leadership-term-id=0 next-leadership-term-id=1 next-term-base-log-position=1024
        1 canvasses term=-1 at=0
        sent NewLeadershipTerm to=1 log-leadership-term-id=-1 next-leadership-term-id=0 next-log-position=1024
        1 canvasses term=1 at=1024
        unsent NewLeadershipTerm
    """,
    "a later log term sends a leader that is ready back, and one that replays not": f"""{LEADER_REPLAY}
        0 canvasses term=2 at=1024
        is LEADER_REPLAY
        let replay
        wait 20
        is LEADER_READY
    """,
    "a later log term sends a leader that is ready back": f"""{LEADER_READY}
        0 canvasses term=2 at=1024
        error potential new election
        is INIT
    """,
}

REPLICATION = {
    "progress is reported, and the slice counts once it is committed": f"""{FOLLOWER_LOG_REPLICATION}
        wait 0
        let replicate to=1536
        hold replicate
        wait 0
        sent AppendPosition to=0 log-position=1536 leadership-term-id=1 flags=0
        let replicate to=2048
        wait 10
        sent AppendPosition to=0 log-position=2048
        is FOLLOWER_LOG_REPLICATION
        0 committed term=1 at=2048
        wait 0
        is CANVASS
    """,
    "a slice that is never committed ends in INIT": f"""{FOLLOWER_LOG_REPLICATION}
        let replicate
        wait 9990
        is FOLLOWER_LOG_REPLICATION
        wait 20
        error awaiting commit position
    """,
    "the leader's messages prolong the wait": f"""{FOLLOWER_LOG_REPLICATION}
        let replicate
        wait 9000
        0 leads term=1 base=2048
        wait 9000
        0 committed term=1 at=1024
        wait 9000
        is FOLLOWER_LOG_REPLICATION
        1 committed term=1 at=2048
        wait 1100
        error awaiting commit position
    """,
    "terms without entries are named one by one": """
        member term=0 at=1024
        wait 0
        0 leads term=10 log-term=0 next=1 next-base=1024 end=1024 base=2048
        is FOLLOWER_LOG_REPLICATION
        wait 0
        is CANVASS
        wait 0
        sent CanvassPosition to=0 log-leadership-term-id=1 log-position=1024 leadership-term-id=10
        0 leads term=10 log-term=0 base=2048
        is CANVASS
    """,
    "nothing is replayed before the leader has told of a commit position": f"""{FOLLOWER_REPLAY}
        0 committed term=1 at=1024
        is FOLLOWER_REPLAY
    """,
    "a replay for which nothing is committed: canvass again": """
        member term=1 at=2048 base=1024 consumed=1536
        wait 0
        0 leads term=1 log-term=1 next=-1 next-base=-1 base=1024 at=2048 commit=1536
        wait 0
        is CANVASS
    """,
    "a leader that never names a commit position is given up": """
        member term=0 at=1024 consumed=512
        wait 0
        0 leads term=1 base=1024 commit=0
        wait 9990
        is FOLLOWER_REPLAY
        wait 10
        error no commit position
    """,
}

WALKS = {
    "from the vote to the end as a follower": f"""{FOLLOWER_BALLOT}
        hold replay
        0 leads term=1 base=1024
        is FOLLOWER_REPLAY
        wait 0
        sent AppendPosition to=0 log-position=1024 leadership-term-id=1 follower-member-id=2
        let replay
        wait 30
        is CLOSED
        sent AppendPosition to=0 log-position=1024 leadership-term-id=1
    """,
    "late in the same term: replay, catch-up, live log": """
        member term=1 at=2048 base=1024 consumed=0
        hold catchup
        wait 0
        0 leads term=1 log-term=1 next=-1 next-base=-1 base=1024 at=4096 commit=3072
        wait 20
        sent CatchupPosition to=0 leadership-term-id=1 log-position=2048 follower-member-id=2
        wait 1000
        is FOLLOWER_CATCHUP
        0 committed term=1 at=4096
        let catchup
        wait 20
        is CLOSED
    """,
    "late by a term: replication, replay, catch-up, live log": f"""{FOLLOWER_LOG_REPLICATION}
        let replicate
        wait 10
        0 committed term=1 at=2048
        wait 10
        is CANVASS
        sent CanvassPosition to=0 log-leadership-term-id=0 log-position=2048
        0 leads term=1 base=2048 at=4096
        is FOLLOWER_REPLAY
        wait 10
        sent AppendPosition to=0 log-position=2048
        0 committed term=1 at=4096
        wait 60
        is CLOSED
    """,
    "many terms behind: one slice a term, those without entries without a replication": """
        member term=0 at=1024 consumed=512
        wait 0
        0 leads term=10 log-term=10 base=4096
        is CANVASS
        0 leads term=10 log-term=0 next=1 next-base=1024 end=1024 base=4096 commit=4096
        wait 10
        sent CanvassPosition to=0
        0 leads term=10 log-term=1 next=2 next-base=1024 end=1024 base=4096
        wait 0
        0 leads term=10 log-term=2 next=3 next-base=1024 end=4096 base=4096
        wait 30
        is CANVASS
        sent CanvassPosition to=0 log-leadership-term-id=3 log-position=4096 leadership-term-id=10
        0 leads term=10 log-term=3 next=4 next-base=4096 end=4096 base=4096
        wait 50
        is CLOSED
    """,
}

ALL = {**WALKS, **CANDIDACY, **BALLOT, **VOTES, **STAYING, **TERMS, **REPLICATION}
ROWS = {
    "from the vote to the end as a follower": "EL-03",
    "at the start a quorum is enough after the startup canvass": "EL-06",
    "the votes of a quorum win after the election time-out": "EL-07",
    "all votes win at once": "EL-09",
    "a slice that is never committed ends in INIT": "EL-15",
    "many terms behind: one slice a term, those without entries without a replication": "EL-17",
    "late in the same term: replay, catch-up, live log": "EL-18",
    "late by a term: replication, replay, catch-up, live log": "EL-19",
    "progress is reported, and the slice counts once it is committed": "EL-21",
}
CASES = [pytest.param(name, marks=[pytest.mark.parity(ROWS[name])] if name in ROWS else []) for name in ALL]


@pytest.mark.parametrize("name", CASES)
def test_election(name: str) -> None:
    ElectionScript().say(ALL[name])


@pytest.mark.parity("EL-24")
@pytest.mark.parametrize("is_node_startup", [False, True])
def test_the_leader_says_that_it_has_just_started_once_it_replays(is_node_startup: bool) -> None:
    begin = CANVASS.replace("consumed=512", f"consumed=512 startup={'yes' if is_node_startup else 'no'}")
    script = ElectionScript(LEADER_READY.replace(CANVASS, begin) + "wait 0")
    said = [(m.log_leadership_term_id, m.is_startup) for to, m in _terms(script) if to == 0]
    assert said[0] == (0, False)
    assert set(said[1:]) == {(0, is_node_startup), (1, is_node_startup)}
    assert script.log.joined == [("leader", is_node_startup)]


@pytest.mark.parity("EL-08")
@pytest.mark.parametrize("is_leader_startup", ["yes", "no"])
@pytest.mark.parametrize("is_own_startup", ["yes", "no"])
def test_a_follower_passes_on_what_the_leader_says_of_its_start(is_leader_startup: str, is_own_startup: str) -> None:
    script = ElectionScript(
        f"""
        member term=0 at=1024 startup={is_own_startup}
        wait 0
        0 leads term=1 base=1024 startup={is_leader_startup}
        wait 30
        is CLOSED
        """
    )
    assert script.log.joined == [("follower", is_leader_startup == "yes")]


def _terms(script: ElectionScript) -> list[tuple[int, cm.NewLeadershipTerm]]:
    return [(to, m) for to, m in script.sent("NewLeadershipTerm") if isinstance(m, cm.NewLeadershipTerm)]


@pytest.mark.parity("EL-24")
def test_term_and_commit_position_of_one_turn_are_of_the_same_term() -> None:
    script = ElectionScript(LEADER_READY)
    commits = [m for _, m in script.sent("CommitPosition") if isinstance(m, cm.CommitPosition)]
    assert {m.leadership_term_id for m in commits} == {1}
    assert {m.leadership_term_id for _, m in _terms(script)} == {1}


@pytest.mark.parity("EL-01")
def test_a_lone_member_leads_in_four_turns() -> None:
    script = ElectionScript("member members=1 startup=yes\nhold append")
    states = []
    for _ in range(4):
        script.turn()
        states.append(script.state)
    assert states == [
        ElectionState.LEADER_LOG_REPLICATION,
        ElectionState.LEADER_REPLAY,
        ElectionState.LEADER_INIT,
        ElectionState.LEADER_READY,
    ]
    assert script.log.joined == [("leader", True)]
    assert script.terms == [(0, 0, -1)]
    assert script.around.node_state.candidate_term_id == 0


@pytest.mark.parity("EL-16")
def test_terms_that_came_to_nothing_are_filled_in() -> None:
    script = ElectionScript(
        """
        member term=1 at=1024 base=512
        wait 0
        0 leads term=10 log-term=1 base=2048
        0 committed term=10 at=2048
        wait 30
        """
    )
    assert script.terms[:2] == [(0, 0, 512), (1, 512, 2048)]
    assert [term for term, base, _ in script.terms if base == 2048] == list(range(2, 11))


@pytest.mark.parity("EL-20")
def test_a_member_that_starts_from_a_snapshot_alone_names_terms_from_that_of_the_snapshot() -> None:
    script = ElectionScript("member term=3 at=1024 base=512 terms=no\n wait 0")
    assert script.terms == []
    script.say("0 leads term=5 log-term=3 base=1024\n wait 30\n is CLOSED")
    assert script.terms == [(3, 512, 512), (4, 512, 1024), (5, 1024, -1)]


@pytest.mark.parity("EL-23")
def test_without_a_recording_no_term_is_named() -> None:
    script = ElectionScript(
        """
        member
        hold join
        wait 0
        0 leads term=0 log-term=-1 base=0 at=0
        wait 20
        is FOLLOWER_LOG_AWAIT
        """
    )
    assert script.terms == []
    script.say("let join\nwait 10")
    assert script.terms == [(0, 0, -1)]


@pytest.mark.parity("EL-25")
def test_the_notified_commit_position_only_rises() -> None:
    script = ElectionScript(FOLLOWER_REPLAY)
    seen = []
    for position in (1024, 512, 2048, 0):
        script.say(f"0 committed term=1 at={position}\n 1 committed term=1 at=9999")
        seen.append(script.election.notified_commit_position)
    assert seen == [1024, 1024, 2048, 2048]


def test_a_leader_that_names_its_term_again_takes_no_commit_position_back() -> None:
    script = ElectionScript(FOLLOWER_LOG_REPLICATION)
    script.say("0 committed term=1 at=2048\nwait 10\nlet replicate to=2048\nwait 10\nis CANVASS")
    script.say("0 leads term=1 base=2048 log-term=0 commit=512\nis FOLLOWER_REPLAY")
    assert script.election.notified_commit_position == 2048


def test_a_leader_commits_no_more_than_it_has_recorded_itself() -> None:
    script = ElectionScript(LEADER_LOG_REPLICATION)
    script.say("0 appended term=1 at=4096\n1 appended term=1 at=4096\nwait 0\nis LEADER_REPLAY")
    assert script.election._quorum_position(script.now) == 1024


@pytest.mark.parity("EL-13")
def test_a_new_election_leaves_the_leading_role() -> None:
    script = ElectionScript(f"{LEADER_INIT}\nfail join\nwait 10")
    roles = [role for _, role, _ in script.around.states]
    assert roles[-1] is Role.FOLLOWER
    assert Role.LEADER in roles
    assert script.state is ElectionState.CANVASS


@pytest.mark.parity("EL-22")
def test_the_log_of_the_new_leader_is_committed_by_a_quorum_that_recorded_it() -> None:
    script = ElectionScript(LEADER_LOG_REPLICATION)
    script.say("1 appended term=1 at=512\nwait 20000\nis LEADER_LOG_REPLICATION")
    script.say("1 appended term=1 at=1024\nwait 0\nis LEADER_REPLAY")
