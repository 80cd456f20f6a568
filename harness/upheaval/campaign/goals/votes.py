"""Goals about candidates and votes."""

from collections import defaultdict
from typing import Final

from upheaval.campaign.goals.goal import GoalArea, died_in, moved
from upheaval.campaign.goals.traced_run import Moment, TracedRun

VOTES: Final = GoalArea("votes")
add, goal = VOTES.add, VOTES.goal


def _log(moment: Moment) -> tuple[int, int]:
    """The end of the log that a message about votes names: its term, and its position."""
    return moment.integer("log_leadership_term_id"), moment.integer("log_position")


def _ballot(moment: Moment) -> tuple[int, int]:
    return moment.integer("candidate_term_id"), moment.integer("candidate_member_id")


def _answers(run: TracedRun, *, granted: bool) -> list[tuple[Moment, Moment]]:
    """The requests and the votes that answer them, those granted or those refused."""
    requests = {(moment.member_id, moment.life, _ballot(moment)): moment for moment in run.received("RequestVote")}
    votes = [vote for vote in run.sent("Vote") if vote.fields.get("vote") is granted]
    pairs = ((requests.get((vote.member_id, vote.life, _ballot(vote))), vote) for vote in votes)
    return [(request, vote) for request, vote in pairs if request is not None]


@goal("vote-refused-for-a-longer-log", "a voter refuses: its log is longer, in the same term")
def _refused_longer(run: TracedRun) -> bool:
    pairs = ((_log(request), _log(vote)) for request, vote in _answers(run, granted=False))
    return any(theirs[0] == own[0] and theirs[1] < own[1] for theirs, own in pairs)


@goal("vote-refused-for-a-later-log-term", "a voter refuses: its log ends in a later term")
def _refused_later(run: TracedRun) -> bool:
    return any(_log(request)[0] < _log(vote)[0] for request, vote in _answers(run, granted=False))


@goal("vote-refused-for-a-used-term", "a voter refuses a log as good as its own: it knows that term or a later one")
def _refused_term(run: TracedRun) -> bool:
    return any(_log(request) >= _log(vote) for request, vote in _answers(run, granted=False))


@goal("vote-refused-after-a-restart", "a voter refuses a term in which it voted before it restarted")
def _refused_restarted(run: TracedRun) -> bool:
    granted = [vote for _, vote in _answers(run, granted=True)]
    return any(
        vote.member_id == refused.member_id
        and vote.life < refused.life
        and vote.integer("candidate_term_id") >= refused.integer("candidate_term_id")
        for _, refused in _answers(run, granted=False)
        for vote in granted
    )


@goal("vote-refused-by-a-leader", "a member that leads refuses a vote")
def _refused_by_leader(run: TracedRun) -> bool:
    spans = (run.election_at(vote) for _, vote in _answers(run, granted=False))
    return any(span is not None and span.leads for span in spans)


@goal("vote-granted-to-a-longer-log", "a voter grants a vote to a candidate with a longer log of the same term")
def _granted_longer(run: TracedRun) -> bool:
    pairs = ((_log(request), _log(vote)) for request, vote in _answers(run, granted=True))
    return any(theirs[0] == own[0] and theirs[1] > own[1] for theirs, own in pairs)


@goal("vote-granted-to-a-later-log-term", "a voter grants a vote to a candidate whose log ends in a later term")
def _granted_later(run: TracedRun) -> bool:
    return any(_log(request)[0] > _log(vote)[0] for request, vote in _answers(run, granted=True))


@goal("vote-granted-to-a-shorter-log", "the log that a voter grants its vote to is shorter, but of a later term")
def _granted_shorter(run: TracedRun) -> bool:
    pairs = ((_log(request), _log(vote)) for request, vote in _answers(run, granted=True))
    return any(theirs[0] > own[0] and theirs[1] < own[1] for theirs, own in pairs)


@goal("vote-arrives-late", "a granted vote reaches a member that is no candidate of that term any more")
def _late(run: TracedRun) -> bool:
    votes = (vote for vote in run.received("Vote") if vote.fields.get("vote") is True)
    spans = ((vote, run.election_at(vote)) for vote in votes)
    return any(
        span is not None
        and (
            span.state != "CANDIDATE_BALLOT"
            or span.moment.integer("candidate_term_id") != vote.integer("candidate_term_id")
        )
        for vote, span in spans
    )


@goal("vote-request-ignored", "a member that knows its leader does not answer a request for a vote")
def _ignored(run: TracedRun) -> bool:
    answered = {(vote.member_id, vote.life, _ballot(vote)) for vote in run.sent("Vote")}
    return any(
        (request.member_id, request.life, _ballot(request)) not in answered for request in run.received("RequestVote")
    )


@goal("candidates-share-a-term", "two members ask for votes in one term")
def _shared(run: TracedRun) -> bool:
    candidates: dict[int, set[int]] = defaultdict(set)
    for request in run.sent("RequestVote"):
        candidates[request.integer("candidate_term_id")].add(request.member_id)
    return any(len(members) > 1 for members in candidates.values())


@goal("candidates-at-once", "two members are candidates at the same moment")
def _at_once(run: TracedRun) -> bool:
    spans = list(run.in_states("CANDIDATE_BALLOT"))
    return any(one.member_id < other.member_id and one.overlaps(other) for one in spans for other in spans)


@goal("candidate-of-three-terms", "a member is a candidate three times, and neither wins nor follows in between")
def _three_terms(run: TracedRun) -> bool:
    for lives in run.lives:
        for life in lives:
            count = 0
            for span in life.elections:
                if span.state == "CANDIDATE_BALLOT":
                    count += 1
                elif span.state.startswith(("LEADER", "FOLLOWER_LOG", "FOLLOWER_REPLAY")):
                    count = 0
                if count == 3:
                    return True
    return False


add("candidate-without-a-quorum", "a ballot ends without a quorum", moved("CANDIDATE_BALLOT", "CANVASS"))


@goal("candidate-grants-its-vote", "a candidate grants its vote in a later term")
def _candidate_votes(run: TracedRun) -> bool:
    return run.moved("CANDIDATE_BALLOT", "FOLLOWER_BALLOT")


@goal("candidate-follows", "a candidate follows the leader of its term")
def _candidate_follows(run: TracedRun) -> bool:
    return any(run.moved("CANDIDATE_BALLOT", state) for state in ("FOLLOWER_REPLAY", "FOLLOWER_LOG_REPLICATION"))


add("candidate-dies", "a process ends as a candidate", died_in("CANDIDATE_BALLOT"))


@goal("nominee-grants-its-vote", "a member that was about to be a candidate votes for another one")
def _nominee_votes(run: TracedRun) -> bool:
    return run.moved("NOMINATE", "FOLLOWER_BALLOT")


add("voter-dies", "a process ends after its vote, before there is a leader", died_in("FOLLOWER_BALLOT"))
add("voter-without-a-leader", "a member votes, and no leader appears in time", moved("FOLLOWER_BALLOT", "CANVASS"))


@goal("vote-binds-a-follower", "a member hears a leader of an earlier term than that in which it voted")
def _bound(run: TracedRun) -> bool:
    granted = [vote for _, vote in _answers(run, granted=True)]
    return any(
        vote.member_id == heard.member_id
        and vote.ns < heard.ns
        and vote.integer("candidate_term_id") > heard.integer("leadership_term_id")
        for heard in run.received("NewLeadershipTerm")
        for vote in granted
    )
