"""Bad runs of members that trace no messages: what forwarders saw between them, and what must not have been there.

Made of runs of our own node, whose traces say of each message what a forwarder would have seen of it. In
`leader-killed` member 0 leads term 0 and is killed, then member 2 leads term 1 by the vote of member 1.
"""

import json
from collections.abc import Callable
from pathlib import Path

from support.bad_runs.bad_run import BadRun
from support.bad_runs.protocol import KILLED, Line, edit, first, in_the_middle, last, remove
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict

MESSAGES = ("send", "receive")
_OF_LINK = ("received", "received_seen", "sent", "sent_seen")


def seen_by_forwarders(folder: Path, change: Callable[[list[Line]], None] = lambda _: None) -> None:
    """The same run of members of Aeron behind forwarders: another file has their messages, which `change` damages."""
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "system": "aeron:1.51.0"}))
    lines: list[Line] = []
    for member in range(3):
        trace = folder / f"member-{member}" / "trace.jsonl"
        told = [json.loads(line) for line in trace.read_text().splitlines()]
        lines += [line for line in told if line["event"] in MESSAGES]
        kept = [line for line in told if line["event"] not in MESSAGES]
        trace.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in kept))
    # What a member answers at once it has received before.
    lines.sort(key=lambda line: (line["ts"], line["event"] == "send"))
    links = [
        {"source": source, "target": target, **dict.fromkeys(_OF_LINK, 1), "missing": 0, "garbage": 0}
        for source in range(3)
        for target in range(3)
        if source != target
    ]
    lines.insert(0, {"ts": 0, "event": "watch-begin"})
    lines.append({"ts": lines[-1]["ts"] + 10**12, "event": "watch-end", "unwritten": 0, "links": links})
    change(lines)
    whole = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (folder / "consensus.jsonl").write_text(whole)


def _seen(change: Callable[[list[Line]], None]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        seen_by_forwarders(folder, change)

    damage.__name__ = change.__name__
    return damage


# --- votes ---


def two_votes_seen_in_one_term(lines: list[Line]) -> None:
    asked = first(lines, event="receive", message="RequestVote", member=1, candidate_term_id=1)
    given = first(lines, event="send", message="Vote", member=1, candidate_term_id=1)
    lines[given + 1 : given + 1] = [
        {**lines[asked], "candidate_member_id": 0},
        {**lines[given], "candidate_member_id": 0, "to": 0},
    ]


def a_vote_seen_before_its_request(lines: list[Line]) -> None:
    remove(lines, event="receive", message="RequestVote", member=1, candidate_term_id=1)


def a_vote_seen_for_a_worse_log(lines: list[Line]) -> None:
    lines[first(lines, event="receive", message="RequestVote", member=1, candidate_term_id=1)]["log_position"] -= 32


def a_request_seen_after_a_vote_in_a_later_term(lines: list[Line]) -> None:
    """To another member, so that only the request tells which vote was the later one."""
    asked = first(lines, event="receive", message="RequestVote", member=1, candidate_term_id=1)
    given = first(lines, event="send", message="Vote", member=1, candidate_term_id=1)
    earlier = {"candidate_term_id": -5, "candidate_member_id": 0}
    lines[given + 1 : given + 1] = [{**lines[asked], **earlier}, {**lines[given], **earlier, "to": 0}]


def candidacies_seen_for_falling_terms(lines: list[Line]) -> None:
    stood = first(lines, event="send", message="RequestVote", candidate_term_id=1)
    lines.insert(stood + 1, {**lines[stood], "candidate_term_id": -5})


def a_leader_seen_without_votes(lines: list[Line]) -> None:
    remove(lines, event="receive", message="Vote", member=2, candidate_term_id=1)


def two_leaders_seen_in_one_term(lines: list[Line]) -> None:
    announced = last(lines, event="send", message="NewLeadershipTerm", leadership_term_id=1)
    lines.insert(announced, {**lines[announced], "member": 1, "to": 0, "leader_member_id": 1})


# --- commit positions ---


def a_commit_position_seen_without_a_quorum(lines: list[Line]) -> None:
    in_the_middle(lines, event="send", message="CommitPosition", leadership_term_id=1)["log_position"] = 1 << 20


def reports_of_another_log_that_count(lines: list[Line]) -> None:
    """A member of the old term names a position past where the new one began, and so do those that follow."""
    for line in lines:
        if line.get("message") == "AppendPosition" and line["leadership_term_id"] == 1:
            line["leadership_term_id"] = 0


def a_term_seen_to_begin_at_two_positions(lines: list[Line]) -> None:
    lines[last(lines, event="send", message="NewLeadershipTerm", leadership_term_id=1)]["term_base_log_position"] -= 32


def a_term_seen_to_begin_below_what_was_committed(lines: list[Line]) -> None:
    for line in lines:
        if line.get("message") == "NewLeadershipTerm" and line["leadership_term_id"] == 1:
            line["term_base_log_position"] = 32


def a_member_that_has_committed_what_later_terms_lack(folder: Path) -> None:
    """Member 1 says so where its last election of term 0 begins."""

    def change(lines: list[Line]) -> None:
        lines[last(lines, event="election_state", state="CANVASS", leadership_term_id=0)]["log_position"] = 1 << 20

    seen_by_forwarders(folder)
    edit(folder, 1, change)


# --- what was not seen ---


def a_watch_without_an_end(lines: list[Line]) -> None:
    lines.pop()


def a_forwarder_that_nobody_looked_at(lines: list[Line]) -> None:
    lines[-1]["links"][0]["received_seen"] = 0


def a_hole_in_what_came_in(lines: list[Line]) -> None:
    lines[-1]["links"][3]["missing"] = 96
    a_leader_seen_without_votes(lines)


def a_link_without_a_forwarder(lines: list[Line]) -> None:
    lines[-1]["links"].pop()


def a_watch_that_began_late(lines: list[Line]) -> None:
    lines[0]["ts"] = lines[-1]["ts"]


def a_member_of_which_nothing_was_seen(lines: list[Line]) -> None:
    lines[:] = [line for line in lines if line.get("member") != 1 or line["event"] != "send"]


def _votes(change: Callable[[list[Line]], None], *says: str, verdict: Verdict = Verdict.INVALID) -> BadRun:
    return BadRun(KILLED, _seen(change), Promise.VOTES_KEPT, says, verdict)


def _commits(change: Callable[[list[Line]], None], *says: str, verdict: Verdict = Verdict.INVALID) -> BadRun:
    return BadRun(KILLED, _seen(change), Promise.COMMITS_KEPT, says, verdict)


SEEN = (
    _votes(two_votes_seen_in_one_term, "member 1 voted for member 2", "for member 0", "consensus.jsonl:", "in term 1"),
    _votes(a_vote_seen_before_its_request, "member 1 voted for member 2 in term 1", "had not reached it"),
    _votes(a_vote_seen_for_a_worse_log, "member 1 with a log of term 0 at", "member 2 with one of term 0 at"),
    _votes(a_request_seen_after_a_vote_in_a_later_term, "member 1 voted in term -5", "after it had voted in term 1"),
    _votes(candidacies_seen_for_falling_terms, "member 2 voted in term -5", "after it had voted in term 1"),
    _votes(a_leader_seen_without_votes, "member 2 leads term 1 at", "the votes of members 2:", "2 of 3 are needed"),
    _votes(two_leaders_seen_in_one_term, "member 1 leads term 1 at", "and so does member 2"),
    _votes(a_watch_without_an_end, "has no end", verdict=Verdict.UNKNOWN),
    _votes(a_forwarder_that_nobody_looked_at, "from member 0 to member 1", verdict=Verdict.UNKNOWN),
    _votes(a_hole_in_what_came_in, "2 of 3 are needed", "from member 1 to member 2", verdict=Verdict.UNKNOWN),
    _votes(a_link_without_a_forwarder, "5 links between 3 members", verdict=Verdict.UNKNOWN),
    _votes(a_watch_that_began_late, "member-0/trace.jsonl:1", verdict=Verdict.UNKNOWN),
    _votes(a_member_of_which_nothing_was_seen, "no message of member 1", verdict=Verdict.UNKNOWN),
    _commits(a_commit_position_seen_without_a_quorum, "member 2 called position 1048576", "members had it (2)"),
    _commits(reports_of_another_log_that_count, "committed in term 1", "1 of 3 members had it (", "2 are needed"),
    _commits(a_term_seen_to_begin_at_two_positions, "term 1 begins at", "and at", "consensus.jsonl:"),
    _commits(a_term_seen_to_begin_below_what_was_committed, "term 1 begins at 32", "committed in term 0"),
    BadRun(
        KILLED,
        a_member_that_has_committed_what_later_terms_lack,
        Promise.COMMITS_KEPT,
        ("term 1 begins at", "below 1048576, which was committed in term 0 (member-1/trace.jsonl:"),
    ),
    _commits(a_watch_without_an_end, "has no end", verdict=Verdict.UNKNOWN),
)
