"""What a replay of a custom service says of `snapshot-is-replay`, by values: no process, no run."""

from dataclasses import replace

import pytest

from upheaval.checkers.own.java_service import JavaReplay
from upheaval.checkers.own.java_trails import Difference
from upheaval.checkers.own.own_replay import OwnReplay
from upheaval.checkers.promises import Promise
from upheaval.checkers.states.java_states import judge_java
from upheaval.checkers.states.own_states import judge_own
from upheaval.checkers.verdict import Finding, NotApplicable, Verdict

PROMISE = Promise.SNAPSHOT_IS_REPLAY
FINDING = Finding(PROMISE, Verdict.VALID, "sessions and terms")
COMPARED = OwnReplay(compared=2, chosen=9)


def test_a_replay_with_comparisons_is_valid() -> None:
    judged = judge_own([], COMPARED, FINDING, None)
    assert isinstance(judged, Finding)
    assert (judged.verdict, "at 2 places" in judged.detail) == (Verdict.VALID, True)


@pytest.mark.parametrize(("chosen", "why"), [(9, "memory was up"), (0, "the log has no entries")])
def test_a_replay_that_compared_nothing_is_not_checked(chosen: int, why: str) -> None:
    judged = judge_own([], OwnReplay(compared=0, chosen=chosen, why_cut="memory was up"), FINDING, None)
    assert isinstance(judged, NotApplicable)
    assert why in judged.why


@pytest.mark.parametrize(
    "broken",
    [
        OwnReplay(compared=0, chosen=9, unsteady="one offers 'a', the other 'b'", unsteady_position=96),
        OwnReplay(compared=0, chosen=9, parted=96),
        OwnReplay(compared=0, chosen=9, unasked="timer 7 fires twice", unasked_position=96),
    ],
)
def test_what_a_replay_without_places_shows_is_a_finding_all_the_same(broken: OwnReplay) -> None:
    judged = judge_own([], broken, FINDING, None)
    assert isinstance(judged, Finding)
    assert (judged.verdict, judged.position) == (Verdict.INVALID, 96)


def test_copies_in_java_that_compared_nothing_are_not_checked() -> None:
    assert isinstance(judge_java([], JavaReplay(cuts=0), FINDING), NotApplicable)
    assert judge_java([], JavaReplay(cuts=1), FINDING) == replace(
        FINDING, detail="sessions and terms; 0 states are those of a replay, and copies from 1 snapshots do as it does"
    )


@pytest.mark.parametrize(("is_of_members", "verdict"), [(True, Verdict.UNKNOWN), (False, Verdict.INVALID)])
def test_a_launcher_may_explain_only_what_members_do_otherwise_than_all_copies(
    is_of_members: bool, verdict: Verdict
) -> None:
    difference = Difference("timer 7 fires twice", 96, is_of_members=is_of_members)
    judged = judge_java([], JavaReplay(difference=difference, doubt="; a launcher"), FINDING)
    assert isinstance(judged, Finding)
    assert (judged.verdict, judged.position, "; a launcher" in judged.detail) == (verdict, 96, is_of_members)
