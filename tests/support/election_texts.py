"""How a member gets into each state of an election, as texts for `ElectionScript`."""

CANVASS = """
    member term=0 at=1024 consumed=512
    wait 0
    is CANVASS
"""
NOMINATE = f"""{CANVASS}
    0 canvasses term=0 at=1024
    1 canvasses term=0 at=512
    wait 0
    is NOMINATE
"""
CANDIDATE_BALLOT = f"""{NOMINATE}
    wait 500
    is CANDIDATE_BALLOT
    sent RequestVote to=0 log-leadership-term-id=0 log-position=1024 candidate-term-id=1
"""
FOLLOWER_BALLOT = f"""{CANVASS}
    0 asks term=0 at=1024 for=1
    sent Vote to=0 vote=yes
    is FOLLOWER_BALLOT
"""
LEADER_LOG_REPLICATION = f"""{CANDIDATE_BALLOT}
    0 votes yes for=1 term=0 at=1024
    1 votes yes for=1 term=0 at=512
    wait 0
    is LEADER_LOG_REPLICATION
"""
LEADER_REPLAY = f"""{LEADER_LOG_REPLICATION}
    hold replay
    0 appended term=1 at=1024
    wait 0
    is LEADER_REPLAY
"""
LEADER_INIT = f"""{LEADER_REPLAY}
    hold join
    let replay
    wait 10
    is LEADER_INIT
"""
LEADER_READY = f"""{LEADER_INIT}
    hold append
    let join
    wait 0
    is LEADER_READY
"""
FOLLOWER_LOG_REPLICATION = f"""{CANVASS}
    hold replicate
    0 leads term=1 base=2048 commit=0
    is FOLLOWER_LOG_REPLICATION
"""
FOLLOWER_REPLAY = f"""{CANVASS}
    hold replay
    0 leads term=1 base=1024
    is FOLLOWER_REPLAY
    wait 0
    sent AppendPosition to=0 leadership-term-id=1 log-position=1024
"""
FOLLOWER_CATCHUP_INIT = f"""{CANVASS}
    unreachable 0
    0 leads term=1 base=1024 at=4096
    wait 10
    is FOLLOWER_CATCHUP_INIT
"""
FOLLOWER_CATCHUP_AWAIT = f"""{FOLLOWER_CATCHUP_INIT}
    hold join
    reachable 0
    wait 0
    sent CatchupPosition to=0 leadership-term-id=1 log-position=1024
    is FOLLOWER_CATCHUP_AWAIT
"""
FOLLOWER_CATCHUP = f"""{FOLLOWER_CATCHUP_AWAIT}
    hold catchup
    let join
    wait 0
    is FOLLOWER_CATCHUP
"""
FOLLOWER_LOG_INIT = f"""{CANVASS}
    0 leads term=1 base=1024
    wait 10
    is FOLLOWER_LOG_INIT
"""
FOLLOWER_LOG_AWAIT = f"""{FOLLOWER_LOG_INIT}
    hold join
    wait 0
    is FOLLOWER_LOG_AWAIT
"""
FOLLOWER_READY = f"""{FOLLOWER_LOG_AWAIT}
    unreachable 0
    let join
    wait 0
    is FOLLOWER_READY
"""
