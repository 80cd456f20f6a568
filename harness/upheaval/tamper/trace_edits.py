"""Edits of the members' traces: what they claim to have done, received and been."""

from collections.abc import Callable, Iterator
from typing import Final

from upheaval.checkers.promises import Promise
from upheaval.tamper.edit import edit
from upheaval.tamper.run_copy import FAULTS, Lacking, Line, RunCopy, need

_BESIDE: Final = 1 << 20
"""A position beyond every log."""


def having(lines: list[Line], **fields: object) -> Iterator[int]:
    """The indices of the lines with these fields."""
    return (at for at, line in enumerate(lines) if all(line.get(name) == value for name, value in fields.items()))


def place(lines: list[Line], nth: int = 0, **fields: object) -> int:
    """The index of the nth line with these fields, from 0. Raises `Lacking`."""
    places = list(having(lines, **fields))
    need(places, f"no trace line with {', '.join(str(value) for value in fields.values())}")
    return places[nth]


def last_term(run: RunCopy) -> tuple[int, int]:
    """The last term that was won, and its leader."""
    won = []
    for member in run.members:
        lines = run.lines(f"member-{member}/trace.jsonl")
        won += [
            (lines[at]["leadership_term_id"], member)
            for at in having(lines, event="election_state", state="LEADER_READY")
        ]
    need(won, "no leader in the traces")
    return max(won)


def stamp(line: Line) -> Line:
    """The fields that every trace line has, apart from its event."""
    return {name: line[name] for name in ("ts", "epoch_ms", "member", "component", "pid")}


def followers(run: RunCopy, leader: int) -> list[int]:
    """The followers of `leader`, those without faults first. Raises `Lacking`."""
    followers = [member for member in run.members if member != leader]
    need(followers, "a single member")
    faults = run.lines(FAULTS) if (run.path / FAULTS).exists() else []
    hit = {member for fault in faults for member in fault["members"]}
    return sorted(followers, key=lambda member: member in hit)


def without_lines(run: RunCopy, is_gone: Callable[[int, Line], bool]) -> None:
    """Remove lines from every trace; `is_gone` gets the member and the line."""

    def change(member: int, lines: list[Line]) -> None:
        lines[:] = [line for line in lines if not is_gone(member, line)]

    run.each_trace(change)


# --- positions ---


def no_commit_position_is_traced(run: RunCopy) -> None:
    """All CommitPosition lines."""
    without_lines(run, lambda _, line: line.get("message") == "CommitPosition")


def no_append_position_is_traced(run: RunCopy) -> None:
    """All AppendPosition lines."""
    without_lines(run, lambda _, line: line.get("message") == "AppendPosition")


def no_position_is_traced(run: RunCopy) -> None:
    """All lines of both."""
    without_lines(run, lambda _, line: line.get("message") in ("CommitPosition", "AppendPosition"))


def every_second_commit_position_is_gone(run: RunCopy) -> None:
    """Half of the CommitPosition lines."""
    without_lines(run, lambda _, line: line.get("message") == "CommitPosition" and line["log_position"] // 32 % 2 == 1)


def a_follower_hears_no_commit_position(run: RunCopy) -> None:
    """All CommitPosition lines that a follower received."""
    follower = followers(run, last_term(run)[1])[0]
    without_lines(
        run,
        lambda member, line: (
            member == follower and line["event"] == "receive" and line.get("message") == "CommitPosition"
        ),
    )


def a_follower_reports_less_than_before(run: RunCopy) -> None:
    """An AppendPosition that falls, sent and received."""
    term, leader = last_term(run)
    follower = followers(run, leader)[0]
    with run.trace(follower) as lines:
        sent = list(having(lines, event="send", message="AppendPosition", leadership_term_id=term))
        need(len(sent) > 20, "few reports")
        at = sent[len(sent) // 2]
        position = lines[at]["log_position"]
        lines.insert(at + 1, {**lines[at], "log_position": position - 320})
    with run.trace(leader) as lines:
        heard = place(
            lines,
            event="receive",
            message="AppendPosition",
            leadership_term_id=term,
            follower_member_id=follower,
            log_position=position,
        )
        lines.insert(heard + 1, {**lines[heard], "log_position": position - 320})


def a_leader_commits_what_no_quorum_has(run: RunCopy) -> None:
    """A commit position past all logs, sent and received."""
    term, leader = last_term(run)
    with run.trace(leader) as lines:
        at = place(lines, -1, event="send", message="CommitPosition", leadership_term_id=term)
        to, position = lines[at]["to"], lines[at]["log_position"]
        lines[at]["log_position"] = _BESIDE
    with run.trace(to) as lines:
        heard = list(having(lines, event="receive", message="CommitPosition", log_position=position))
        if heard:
            lines[heard[-1]]["log_position"] = _BESIDE


def a_leader_commits_before_the_reports(run: RunCopy) -> None:
    """Commit positions 5 ms before the reports."""
    term, leader = last_term(run)

    def change(_: int, lines: list[Line]) -> None:
        for line in lines:
            if line.get("message") == "CommitPosition" and line["leadership_term_id"] == term:
                line["ts"] -= 5_000_000
        lines.sort(key=lambda line: line["ts"])

    need(leader >= 0, "no leader")
    run.each_trace(change)


def a_follower_hears_of_a_later_commit_position(run: RunCopy) -> None:
    """A commit position that its leader did not send."""
    term, leader = last_term(run)
    with run.trace(followers(run, leader)[0]) as lines:
        at = place(lines, -1, event="receive", message="CommitPosition", leadership_term_id=term)
        lines[at]["log_position"] += 32


def a_term_begins_elsewhere_for_one_member(run: RunCopy) -> None:
    """The base of a term that a follower received."""
    term, leader = last_term(run)
    with run.trace(followers(run, leader)[0]) as lines:
        at = place(lines, event="receive", message="NewLeadershipTerm", leadership_term_id=term)
        lines[at]["term_base_log_position"] += 32


# --- votes and leaders ---


def a_member_votes_twice_in_a_term(run: RunCopy) -> None:
    """Two votes in a term."""
    term, leader = last_term(run)
    voter = _voter(run, term)
    other = next((member for member in run.members if member not in (leader, voter)), leader)
    with run.trace(voter) as lines:
        asked = place(lines, event="receive", message="RequestVote", candidate_term_id=term)
        given = place(lines, event="send", message="Vote", candidate_term_id=term, vote=True)
        vote = {**lines[given], "candidate_member_id": other, "to": other}
        lines[given + 1 : given + 1] = [{**lines[asked], "candidate_member_id": other}, vote]


def _voter(run: RunCopy, term: int) -> int:
    for member in run.members:
        lines = run.lines(f"member-{member}/trace.jsonl")
        if any(having(lines, event="send", message="Vote", candidate_term_id=term, vote=True)):
            return member
    raise Lacking("no vote in the last term")


def a_member_votes_for_one_with_a_shorter_log(run: RunCopy) -> None:
    """A vote for a log behind that of the voter."""
    term, _ = last_term(run)
    _voter(run, term)

    def change(_: int, lines: list[Line]) -> None:
        for line in lines:
            if line.get("message") == "RequestVote" and line["candidate_term_id"] == term:
                line["log_position"] = max(0, line["log_position"] - 1024)

    run.each_trace(change)


def a_leader_wins_by_its_own_vote(run: RunCopy) -> None:
    """All votes of the last term."""
    term, _ = last_term(run)
    need(len(run.members) > 1, "a single member")
    without_lines(run, lambda _, line: line.get("message") == "Vote" and line["candidate_term_id"] == term)


def a_refused_vote_counts(run: RunCopy) -> None:
    """A refused vote that the candidate counts.

    The voter's own trace says that it refused.
    """
    term, leader = last_term(run)
    with run.trace(_voter(run, term)) as lines:
        for at in having(lines, event="send", message="Vote", candidate_term_id=term, candidate_member_id=leader):
            lines[at]["vote"] = False


def no_election_is_traced(run: RunCopy) -> None:
    """All canvasses, requests and votes."""
    need(len(run.members) > 1, "a single member")
    without_lines(run, lambda _, line: line.get("message") in ("Vote", "RequestVote", "CanvassPosition"))


def a_second_leader_speaks(run: RunCopy) -> None:
    """A CommitPosition of a follower."""
    term, leader = last_term(run)
    follower = followers(run, leader)[0]
    with run.trace(follower) as lines:
        at = place(lines, -1, event="send", message="AppendPosition", leadership_term_id=term)
        message = {"message": "CommitPosition", "leadership_term_id": term, "log_position": 32}
        line = stamp(lines[at])
        lines.insert(at + 1, {**line, "event": "send", "to": leader, **message, "leader_member_id": follower})


def a_follower_calls_itself_leader(run: RunCopy) -> None:
    """A role line of a follower."""
    term, leader = last_term(run)
    with run.trace(followers(run, leader)[0]) as lines:
        at = place(lines, -1, event="send", message="AppendPosition", leadership_term_id=term)
        line = stamp(lines[at])
        lines.insert(at + 1, {**line, "event": "role", "old": "FOLLOWER", "new": "LEADER"})


def no_leader_says_that_it_leads(run: RunCopy) -> None:
    """All role lines."""
    last_term(run)
    without_lines(run, lambda _, line: line["event"] == "role")


def an_election_skips_a_state(run: RunCopy) -> None:
    """An election without its ballot."""
    term, leader = last_term(run)
    with run.trace(leader) as lines:
        at = place(lines, -1, event="election_state", state="CANDIDATE_BALLOT", candidate_term_id=term)
        del lines[at]


def an_election_ends_where_it_began(run: RunCopy) -> None:
    """An election without states between the first and the last."""
    term, leader = last_term(run)
    with run.trace(leader) as lines:
        begin = place(lines, -1, event="election_state", state="CANVASS")
        end = place(lines, -1, event="election_state", state="LEADER_READY", leadership_term_id=term)
        lines[begin + 1 : end] = [line for line in lines[begin + 1 : end] if line["event"] != "election_state"]


def a_member_ends_its_election_twice(run: RunCopy) -> None:
    """FOLLOWER_READY after CLOSED."""
    _, leader = last_term(run)
    with run.trace(leader) as lines:
        at = place(lines, -1, event="election_state", state="CLOSED")
        lines.insert(at + 1, {**lines[at], "state": "FOLLOWER_READY"})


_VOTES = Promise.VOTES_KEPT
_COMMITS = Promise.COMMITS_KEPT
_FINAL = Promise.FINAL_POSITIONS
_COMPLETE = Promise.EVIDENCE_COMPLETE

TRACE_EDITS = (
    edit(no_commit_position_is_traced, _COMMITS, _FINAL, _COMPLETE, Promise.BOUNDS_KEPT),
    edit(no_append_position_is_traced, _COMMITS, _FINAL, _COMPLETE),
    edit(no_position_is_traced, _COMMITS, _FINAL, _COMPLETE, Promise.BOUNDS_KEPT),
    edit(every_second_commit_position_is_gone, _COMMITS, _FINAL, _COMPLETE),
    edit(a_follower_hears_no_commit_position, _COMMITS, _COMPLETE),
    edit(a_follower_reports_less_than_before, _COMMITS),
    edit(a_leader_commits_what_no_quorum_has, _COMMITS),
    edit(a_leader_commits_before_the_reports, _COMMITS),
    edit(a_follower_hears_of_a_later_commit_position, _COMMITS),
    edit(a_term_begins_elsewhere_for_one_member, _COMMITS),
    edit(a_member_votes_twice_in_a_term, _VOTES),
    edit(a_member_votes_for_one_with_a_shorter_log, _VOTES),
    edit(a_leader_wins_by_its_own_vote, _VOTES),
    edit(a_refused_vote_counts, _VOTES),
    edit(no_election_is_traced, _VOTES),
    edit(a_second_leader_speaks, Promise.ONE_LEADER_A_TERM, _VOTES, _COMMITS),
    edit(a_follower_calls_itself_leader, Promise.ONE_LEADER_A_TERM, _VOTES),
    edit(no_leader_says_that_it_leads, Promise.ONE_LEADER_A_TERM, _VOTES, _COMPLETE),
    edit(an_election_skips_a_state, _VOTES),
    edit(an_election_ends_where_it_began, _VOTES),
    edit(a_member_ends_its_election_twice, _VOTES, Promise.MEMBERS_JOIN),
)
