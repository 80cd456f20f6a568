"""Waiting for convergence: two looks in a row have to agree, and a log that has moved is looked at again."""

from collections.abc import Sequence
from pathlib import Path

from upheaval.cluster import ELECTION_CLOSED, LEADER, MemberStatus
from upheaval.run_folder import Manifest, RunFolder
from upheaval.runtimes.conditions import Conditions

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


class Looks:
    """What is seen, look after look; the last one stays."""

    def __init__(self, *seen: Sequence[MemberStatus]) -> None:
        self._seen = list(seen)

    def __call__(self) -> Sequence[MemberStatus]:
        return self._seen.pop(0) if len(self._seen) > 1 else self._seen[0]


def conditions(looks: Looks) -> Conditions:
    return Conditions(looks, raise_if_ended=lambda: None, interval_s=0.0001)


def run_folder(path: Path) -> RunFolder:
    run = RunFolder(path)
    run.create(Manifest("run-1", "process", 3, "test", 0))
    return run


def test_a_log_that_moved_between_two_looks_is_looked_at_again(tmp_path: Path) -> None:
    """A session timed out: its end is appended, and for a moment the followers lack it."""
    still, moving, later = members(96, 96, 96), members(160, 96, 96, commit=96), members(160, 160, 160)
    run = run_folder(tmp_path)
    converge = conditions(Looks(still, moving, later)).converge(run, 10)
    assert converge.reached
    assert {(final.append_position, final.commit_position) for final in converge.members} == {(160, 160)}
    assert run.read_manifest().converge == converge


def test_equal_looks_at_different_positions_are_not_the_end(tmp_path: Path) -> None:
    converge = conditions(Looks(members(96, 96, 96), members(128, 128, 128), members(160, 160, 160))).converge(
        run_folder(tmp_path), 10
    )
    assert converge.reached
    assert {final.commit_position for final in converge.members} == {160}


def test_members_that_never_agree_are_written_as_they_were_seen_last(tmp_path: Path) -> None:
    converge = conditions(Looks(members(96, 96, 64))).converge(run_folder(tmp_path), 0.01)
    assert not converge.reached
    assert [final.append_position for final in converge.members] == [96, 96, 64]
