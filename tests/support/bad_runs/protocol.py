"""Bad runs about votes, terms and commit positions: what a member's trace says that it did, and may not have done.

In `leader-killed` member 0 leads term 0 and is killed, then member 2 leads term 1 by the vote of member 1. In
`snapshot-and-restart` member 0 leads term 0, all end and start again, and member 1 leads term 1.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from support.bad_runs.bad_run import BadRun
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict

Line = dict[str, Any]

KILLED = "leader-killed"
RESTARTED = "snapshot-and-restart"
ALL_KILLED = "all-killed-and-restarted"
FORGOTTEN = ("member 1 entered term 0", "after term 1", "its files were lost")
CANDIDATE_TERM_OFFSET = 24
"""In `node-state.dat`."""


def edit(folder: Path, member: int, change: Callable[[list[Line]], None]) -> None:
    """Change the lines of a member's trace."""
    trace = folder / f"member-{member}" / "trace.jsonl"
    lines = [json.loads(line) for line in trace.read_text().splitlines()]
    change(lines)
    trace.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def having(lines: list[Line], **fields: object) -> Iterator[int]:
    """Where the lines with these fields are."""
    return (at for at, line in enumerate(lines) if all(line.get(name) == value for name, value in fields.items()))


def first(lines: list[Line], **fields: object) -> int:
    """Where the first one is."""
    return next(having(lines, **fields))


def last(lines: list[Line], **fields: object) -> int:
    """Where the last one is."""
    return list(having(lines, **fields))[-1]


def remove(lines: list[Line], **fields: object) -> None:
    """Take all of them out."""
    kept = [line for line in lines if any(line.get(name) != value for name, value in fields.items())]
    assert len(kept) < len(lines)
    lines[:] = kept


def in_the_middle(lines: list[Line], **fields: object) -> Line:
    """One of them with others before and after it."""
    found = list(having(lines, **fields))
    assert len(found) > 20
    return lines[found[len(found) // 2]]


# --- votes ---


def two_votes_in_one_term(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        asked = first(lines, event="receive", message="RequestVote", candidate_term_id=1)
        given = first(lines, event="send", message="Vote", candidate_term_id=1)
        lines[given + 1 : given + 1] = [
            {**lines[asked], "candidate_member_id": 0},
            {**lines[given], "candidate_member_id": 0, "to": 0},
        ]

    edit(folder, 1, change)


def a_vote_in_an_earlier_term(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        asked = first(lines, event="receive", message="RequestVote", candidate_term_id=1)
        given = first(lines, event="send", message="Vote", candidate_term_id=1)
        lines += [{**lines[asked], "candidate_term_id": 0}, {**lines[given], "candidate_term_id": 0}]

    edit(folder, 1, change)


def a_vote_for_one_who_did_not_ask(folder: Path) -> None:
    edit(folder, 1, lambda lines: remove(lines, event="receive", message="RequestVote", candidate_term_id=1))


def a_vote_for_a_worse_log(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        lines[first(lines, event="receive", message="RequestVote", candidate_term_id=1)]["log_position"] -= 32

    edit(folder, 1, change)


def a_vote_that_nobody_gave(folder: Path) -> None:
    edit(folder, 1, lambda lines: remove(lines, event="send", message="Vote", candidate_term_id=1))


def a_vote_that_the_node_state_forgot(folder: Path) -> None:
    path = folder / "member-1" / "cluster" / "node-state.dat"
    content = bytearray(path.read_bytes())
    assert content[CANDIDATE_TERM_OFFSET : CANDIDATE_TERM_OFFSET + 8] == (1).to_bytes(8, "little")
    content[CANDIDATE_TERM_OFFSET : CANDIDATE_TERM_OFFSET + 8] = bytes(8)
    path.write_bytes(content)


def no_node_state(folder: Path) -> None:
    (folder / "member-1" / "cluster" / "node-state.dat").unlink()


def a_second_candidacy_after_a_restart(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        request = lines[first(lines, event="send", message="RequestVote", candidate_term_id=1)]
        lines.insert(last(lines, event="process-start"), request)

    edit(folder, 1, change)


def a_leader_with_its_own_vote_alone(folder: Path) -> None:
    edit(folder, 2, lambda lines: remove(lines, event="receive", message="Vote", candidate_term_id=1))


def a_leader_without_an_election(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        remove(lines, event="election_state", state="LEADER_LOG_REPLICATION", candidate_term_id=1)

    edit(folder, 2, change)


def a_term_that_is_won_twice(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        lines.append(lines[first(lines, event="election_state", state="LEADER_LOG_REPLICATION", candidate_term_id=1)])

    edit(folder, 2, change)


def an_earlier_term_is_entered(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        remove(lines, event="send", message="Vote")
        lines.append(lines[first(lines, event="leadership_term", leadership_term_id=0, source="election")])

    edit(folder, 1, change)


def an_earlier_term_is_entered_on_a_new_host(folder: Path) -> None:
    an_earlier_term_is_entered(folder)
    edit(folder, 1, lambda lines: lines.insert(-1, lines[first(lines, event="process-start")]))
    (folder / "member-1" / "replaced-1").mkdir()


def an_earlier_term_is_entered_after_a_power_cut(folder: Path) -> None:
    an_earlier_term_is_entered(folder)
    edit(folder, 1, lambda lines: lines.insert(-1, lines[first(lines, event="process-start")]))
    faults = folder / "faults.jsonl"
    fault = json.loads(faults.read_text())
    faults.write_text(json.dumps({**fault, "what": "power-cut", "members": [1]}) + "\n")
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "sync_level": 0}))


def an_earlier_leader_is_followed_after_a_vote(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        report = lines[first(lines, event="send", message="AppendPosition", leadership_term_id=0)]
        lines.insert(first(lines, event="send", message="Vote", candidate_term_id=1) + 1, report)

    edit(folder, 1, change)


# --- commit positions ---


def a_commit_position_without_a_quorum(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        in_the_middle(lines, event="send", message="CommitPosition", leadership_term_id=1)["log_position"] = 1 << 20

    edit(folder, 2, change)


def an_announced_commit_position_without_a_quorum(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        lines[last(lines, event="send", message="NewLeadershipTerm", leadership_term_id=1)]["commit_position"] = 1 << 20

    edit(folder, 2, change)


def an_old_log_that_is_committed_before_the_term_is_named(folder: Path) -> None:
    """What a quorum reports under the new term before the leader replays, it reports under the old one."""
    for member in range(3):
        edit(folder, member, _report_under_the_old_term)


def _report_under_the_old_term(lines: list[Line]) -> None:
    won = last(lines, event="process-start")
    for at in having(lines, message="AppendPosition", leadership_term_id=1):
        if at > won:
            lines[at]["leadership_term_id"] = 0


def a_commit_position_that_goes_back(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        in_the_middle(lines, event="send", message="CommitPosition", leadership_term_id=1)["log_position"] -= 1024

    edit(folder, 2, change)


def a_commit_position_of_the_old_log_that_goes_back(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        won = first(lines, event="election_state", state="LEADER_REPLAY", leadership_term_id=1)
        line = next(line for line in lines[won:] if line.get("message") == "CommitPosition")
        line["log_position"] -= 1024

    edit(folder, 1, change)


def a_commit_position_that_a_follower_hears_go_back(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        in_the_middle(lines, event="receive", message="CommitPosition", leadership_term_id=1)["log_position"] -= 1024

    edit(folder, 1, change)


def a_commit_position_that_nobody_sent(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        lines[last(lines, event="receive", message="CommitPosition", leadership_term_id=1)]["log_position"] += 32

    edit(folder, 1, change)


def a_report_that_nobody_sent(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        lines[last(lines, event="receive", message="AppendPosition", leadership_term_id=1)]["log_position"] += 32

    edit(folder, 2, change)


def _arriving_higher(message: str, field: str, by: int = 1024) -> Callable[[Path], None]:
    """Each such message arrives with more in a field than its sender sent."""

    def change(lines: list[Line]) -> None:
        for at in having(lines, event="receive", message=message):
            lines[at][field] += by

    def damage(folder: Path) -> None:
        for member in range(3):
            edit(folder, member, change)

    damage.__name__ = f"{message}_arrives_with_a_higher_{field}"
    return damage


def a_member_that_commits_less_than_before(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        lines[last(lines, event="election_state", state="INIT")]["log_position"] += 1024

    edit(folder, 1, change)


def a_member_that_cuts_what_it_had_committed(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        canvass = lines[last(lines, event="election_state", state="CANVASS")]
        canvass["append_position"] = canvass["log_position"] - 32

    edit(folder, 1, change)


def a_term_that_begins_at_two_positions(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        heard = first(lines, event="receive", message="NewLeadershipTerm", leadership_term_id=1)
        lines[heard]["term_base_log_position"] -= 32

    edit(folder, 1, change)


def a_term_that_begins_below_what_was_committed(folder: Path) -> None:
    def change(lines: list[Line]) -> None:
        for line in lines:
            if line.get("leadership_term_id") == 1 and line.get("state") == "LEADER_LOG_REPLICATION":
                line["append_position"] -= 96
            elif line.get("leadership_term_id") == 1 and "term_base_log_position" in line:
                line["term_base_log_position"] -= 96

    for member in range(3):
        edit(folder, member, change)


def no_trace_of_a_follower(folder: Path) -> None:
    (folder / "member-1" / "trace.jsonl").unlink()


def an_empty_trace_of_a_follower(folder: Path) -> None:
    (folder / "member-1" / "trace.jsonl").write_text("")


def an_event_without_its_position(folder: Path) -> None:
    edit(folder, 2, lambda lines: in_the_middle(lines, event="send", message="CommitPosition").pop("log_position"))


def _votes(damage: Callable[[Path], None], *says: str, scenario: str = KILLED) -> BadRun:
    return BadRun(scenario, damage, Promise.VOTES_KEPT, says)


def _commits(damage: Callable[[Path], None], *says: str, scenario: str = KILLED) -> BadRun:
    return BadRun(scenario, damage, Promise.COMMITS_KEPT, says)


PROTOCOL = (
    _votes(two_votes_in_one_term, "member 1 voted for member 2", "for member 0", "member-1/trace.jsonl:", "term 1"),
    _votes(a_vote_in_an_earlier_term, "member 1 voted in term 0", "after", "in term 1", "member-1/trace.jsonl:"),
    _votes(a_vote_for_one_who_did_not_ask, "member 1 voted for member 2 in term 1", "had not asked"),
    _votes(a_vote_for_a_worse_log, "member 1 with a log of term 0 at", "member 2 with one of term 0 at"),
    _votes(a_vote_that_nobody_gave, "member 2 counts a vote of member 1 in term 1", "member-2/trace.jsonl:"),
    _votes(a_vote_that_the_node_state_forgot, "member-1/cluster/node-state.dat", "member-1/trace.jsonl:"),
    _votes(
        a_second_candidacy_after_a_restart, "member 1 stood for term 1", "again after a restart", scenario=RESTARTED
    ),
    _votes(a_leader_with_its_own_vote_alone, "member 2 took term 1", "the votes of members 2:", "2 of 3 are needed"),
    _votes(a_leader_without_an_election, "member 2 becomes LEADER in state CANDIDATE_BALLOT", "member-2/trace.jsonl:"),
    _votes(a_term_that_is_won_twice, "member 2 took term 1", "and again at", "member-2/trace.jsonl:"),
    _votes(an_earlier_term_is_entered, "member 1 entered term 0", "after term 1", "member-1/trace.jsonl:"),
    BadRun(KILLED, an_earlier_term_is_entered_on_a_new_host, Promise.VOTES_KEPT, FORGOTTEN, Verdict.UNKNOWN),
    BadRun(KILLED, an_earlier_term_is_entered_after_a_power_cut, Promise.VOTES_KEPT, FORGOTTEN, Verdict.UNKNOWN),
    _votes(an_earlier_leader_is_followed_after_a_vote, "member 1 follows the leader of term 0", "voted in term 1"),
    BadRun(KILLED, no_node_state, Promise.VOTES_KEPT, ("member-1/cluster/node-state.dat",), Verdict.UNKNOWN),
    BadRun(KILLED, no_trace_of_a_follower, Promise.VOTES_KEPT, ("member 1",), Verdict.UNKNOWN),
    BadRun(KILLED, an_empty_trace_of_a_follower, Promise.VOTES_KEPT, ("member-1/trace.jsonl",), Verdict.UNKNOWN),
    _commits(a_commit_position_without_a_quorum, "member 2 called position 1048576 committed", "members had it (2)"),
    _commits(an_announced_commit_position_without_a_quorum, "member 2 called position 1048576", "in term 1"),
    _commits(
        an_old_log_that_is_committed_before_the_term_is_named, "committed in term 1", "are needed", scenario=ALL_KILLED
    ),
    _commits(a_commit_position_that_goes_back, "commit position of member 2 in term 1 went back from", "member-2/"),
    _commits(
        a_commit_position_of_the_old_log_that_goes_back, "of member 1 in term 1 went back from", scenario=RESTARTED
    ),
    _commits(a_commit_position_that_a_follower_hears_go_back, "member 1 heard from member 2", "went back from"),
    _commits(a_commit_position_that_nobody_sent, "member 1 heard from member 2", "member-2/trace.jsonl"),
    _commits(a_report_that_nobody_sent, "member 2 heard from member", "does not have as reported"),
    _commits(a_member_that_commits_less_than_before, "commit position of member 1 went back from", "member-1/"),
    _commits(
        a_member_that_cuts_what_it_had_committed, "log of member 1 ends at", "it had committed up to", "member-1/"
    ),
    _commits(a_term_that_begins_at_two_positions, "term 1 begins at", "member-1/trace.jsonl:"),
    _commits(a_term_that_begins_below_what_was_committed, "term 1 begins at", "below", "committed in term 0"),
    *(
        _votes(_arriving_higher("RequestVote", field, by), "RequestVote of member", f"{field} ", "have as sent")
        for field, by in (("log_position", 1024), ("log_leadership_term_id", 1))
    ),
    *(
        _commits(_arriving_higher(message, field), f"a {message} of member", f"with {field} ", "not have as sent")
        for message, field in (
            ("Vote", "log_position"),
            ("CanvassPosition", "log_position"),
            ("NewLeadershipTerm", "log_position"),
            ("NewLeadershipTerm", "commit_position"),
        )
    ),
    BadRun(KILLED, no_trace_of_a_follower, Promise.COMMITS_KEPT, ("member 1",), Verdict.UNKNOWN),
    BadRun(KILLED, an_event_without_its_position, Promise.COMMITS_KEPT, ("member-2/trace.jsonl:",), Verdict.UNKNOWN),
)
