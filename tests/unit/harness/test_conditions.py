"""Waiting: convergence takes two looks in a row that agree, and a leader of old has not caught up."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from upheaval.checkers.evidence.convergence import converged
from upheaval.checkers.verdict import Verdict
from upheaval.errors import EnvironmentFault, UnknownOutcome
from upheaval.records import Manifest, RunFolder
from upheaval.runtimes.conditions import Conditions
from upheaval.system import ELECTION_CLOSED, LEADER, MemberStatus, is_caught_up

FOLLOWER = "FOLLOWER"


def members(*positions: int, commit: int | None = None) -> list[MemberStatus]:
    """Members that have recorded up to these positions; the first one leads."""
    return [
        MemberStatus(
            member_id,
            alive=True,
            role=FOLLOWER if member_id else LEADER,
            leadership_term_id=1,
            leader_member_id=0,
            election_state=ELECTION_CLOSED,
            append_position=position,
            commit_position=position if commit is None else commit,
        )
        for member_id, position in enumerate(positions)
    ]


class Looks(Conditions):
    """What is seen, look after look; the last one stays."""

    poll_interval_s = 0.0001

    def __init__(self, run: RunFolder, *seen: list[MemberStatus]) -> None:
        super().__init__(run)
        self._seen = list(seen)
        self.looked_ns: list[int] = []

    def status(self) -> list[MemberStatus]:
        self.looked_ns.append(time.monotonic_ns())
        return self._seen.pop(0) if len(self._seen) > 1 else self._seen[0]

    def raise_if_ended(self, member_id: int | None = None) -> None:
        """No member ends."""


def run_folder(path: Path) -> RunFolder:
    run = RunFolder(path)
    run.create(Manifest("run-1", "process", 3, "test", 0))
    return run


def test_a_log_that_moved_between_two_looks_is_looked_at_again(tmp_path: Path) -> None:
    """A session timed out: its end is appended, and for a moment the followers lack it."""
    still, moving, later = members(96, 96, 96), members(160, 96, 96, commit=96), members(160, 160, 160)
    run = run_folder(tmp_path)
    converge = Looks(run, still, moving, later).converge(10)
    assert converge.reached
    assert {(final.append_position, final.commit_position) for final in converge.members} == {(160, 160)}
    assert run.read_manifest().converge == converge


def test_equal_looks_at_different_positions_are_not_the_end(tmp_path: Path) -> None:
    run = run_folder(tmp_path)
    converge = Looks(run, members(96, 96, 96), members(128, 128, 128), members(160, 160, 160)).converge(10)
    assert converge.reached
    assert {final.commit_position for final in converge.members} == {160}


def test_the_end_is_before_the_look_that_found_nothing_more(tmp_path: Path) -> None:
    """What was committed before that has to be within the final positions; later than that it need not."""
    looks = Looks(run_folder(tmp_path), members(96, 96, 96))
    converge = looks.converge(10)
    first, second = looks.looked_ns
    assert first <= converge.completed_ns <= second


def test_members_that_never_agree_are_written_as_they_were_seen_last(tmp_path: Path) -> None:
    run = run_folder(tmp_path)
    seen = [*members(96, 64), MemberStatus(2, alive=False)]
    converge = Looks(run, seen).converge(0.01)
    assert not converge.reached
    assert [final.append_position for final in converge.members] == [96, 64, -1]
    assert converge.why == (
        "member 0 LEADER CLOSED term 1 recorded 96 committed 96; "
        "member 1 FOLLOWER CLOSED term 1 recorded 64 committed 64; member 2 is down (waited 0.01 s)"
    )
    assert converge.why in repr(converge)
    assert run.read_manifest().converge == converge
    finding = converged(run.read_manifest())
    assert (finding.verdict, finding.detail.endswith(converge.why)) == (Verdict.TIMEOUT, True)


@pytest.mark.parametrize("state", [ELECTION_CLOSED, "INIT"])
def test_a_leader_of_old_has_not_caught_up(tmp_path: Path, state: str) -> None:
    """Member 0 was paused and does not know yet that member 1 has followed it."""
    old, new, follower = members(96, 160, 160)
    old = replace(old, leadership_term_id=0)
    new = replace(new, role=LEADER, leader_member_id=1, election_state=state)
    follower = replace(follower, leader_member_id=1)
    seen = [old, new, follower]
    assert not is_caught_up(seen, 0)
    with pytest.raises(UnknownOutcome, match="member 0 does not catch up: member 0 LEADER CLOSED term 0 recorded 96 "):
        Looks(RunFolder(tmp_path), seen).wait_until_caught_up(0, 0.01)
    serves = state == ELECTION_CLOSED
    assert [is_caught_up(seen, member_id) for member_id in (1, 2)] == [serves, serves]


def test_a_member_has_caught_up_when_it_follows_the_leader_and_its_election_is_over(tmp_path: Path) -> None:
    leader, follower, late = members(96, 96, 0)
    late = replace(late, election_state="FOLLOWER_CATCHUP")
    assert [is_caught_up([leader, follower, late], member_id) for member_id in range(3)] == [True, True, False]
    assert Looks(RunFolder(tmp_path), [leader, follower, late]).wait_until_caught_up(1, 1) == follower
    gone = MemberStatus(0, alive=False)
    assert not is_caught_up([gone, follower, late], 1)


def test_a_failed_wait_names_the_stalls_that_were_recorded_meanwhile(tmp_path: Path) -> None:
    run = run_folder(tmp_path)
    early, late = 1, time.monotonic_ns() + 10**12
    stalls = {0: [(early, 900), (late, 40)], 1: [(late, 300), (late, 700)], 2: [(early, 5000)]}
    for member_id, told in stalls.items():
        run.member(member_id).path.mkdir()
        lines = [{"ts": ns, "event": "loop-stall", "stall_ns": ms * 10**6} for ns, ms in told]
        run.member(member_id).trace.write_text("".join(json.dumps(each) + "\n" for each in lines))
    meanwhile = "; meanwhile a stall of 40 ms (member-0/trace.jsonl:2), a stall of 700 ms (member-1/trace.jsonl:2) ("
    looks = Looks(run, [replace(each, role=FOLLOWER) for each in members(5, 5, 5)])
    for wait in (looks.wait_until_leader, lambda timeout_s: looks.wait_until_caught_up(1, timeout_s)):
        with pytest.raises(UnknownOutcome) as failed:
            wait(timeout_s=0.01)
        assert meanwhile in str(failed.value)
    converge = looks.converge(timeout_s=0.01)
    assert meanwhile in converge.why


def test_a_failed_wait_without_stalls_says_none(tmp_path: Path) -> None:
    with pytest.raises(UnknownOutcome) as failed:
        Looks(run_folder(tmp_path), [MemberStatus(0, alive=False)]).wait_until_leader(timeout_s=0.01)
    assert "meanwhile" not in str(failed.value)


class Starting(Looks):
    """Members that were just started, with what they have come to at each look; they lead at the last."""

    def __init__(self, run: RunFolder, *progress: str) -> None:
        super().__init__(run, [replace(members(0)[0], role=FOLLOWER, election_state="CANVASS")])
        self._progress = list(progress)
        self.is_silent = False

    def progress(self) -> list[str]:
        if len(self._progress) == 1:
            self._seen = [members(64, 64, 64)]
            return self._progress
        return [self._progress.pop(0)]

    def raise_if_silent(self) -> None:
        if self.is_silent:
            raise EnvironmentFault("a member shows nothing")


def test_the_wait_after_a_start_lasts_as_long_as_members_get_on(tmp_path: Path) -> None:
    starting = Starting(run_folder(tmp_path), "no file", "mark files", "an election")
    assert starting.wait_until_first_leader(0.01) == 0
    starting = Starting(run_folder(tmp_path / "again"), "no file", "mark files", "an election")
    assert starting.wait_until_caught_up(0, 0.01).role == LEADER


def test_members_that_do_not_get_on_are_given_up_and_silent_ones_are_named(tmp_path: Path) -> None:
    starting = Starting(run_folder(tmp_path), "no file", "no file", "an election")
    with pytest.raises(UnknownOutcome, match="no leader: member 0 FOLLOWER CANVASS"):
        starting.wait_until_first_leader(0.01)
    starting = Starting(run_folder(tmp_path / "late"), "no file", "no file", "an election")
    with pytest.raises(UnknownOutcome, match="member 0 does not catch up: member 0 FOLLOWER CANVASS"):
        starting.wait_until_caught_up(0, 0.01)
    starting = Starting(run_folder(tmp_path / "silent"), "no file", "mark files", "an election")
    starting.is_silent = True
    with pytest.raises(EnvironmentFault, match="a member shows nothing"):
        starting.wait_until_first_leader(0.01)
