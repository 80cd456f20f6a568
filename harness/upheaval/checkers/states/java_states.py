"""Judges `snapshot-is-replay` for a user's Java service, by what its copies did and what members recorded."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from upheaval.checkers.own.java_service import JavaReplay
from upheaval.checkers.promises import Promise
from upheaval.checkers.states.member_state import MemberState
from upheaval.checkers.states.snapshot_fields import REPLAYED_SERVICE
from upheaval.checkers.states.state_diff import state_difference
from upheaval.checkers.verdict import Finding, NotApplicable, Result, Verdict

_DIGITS: Final = 12


def judge_java(recorded: Iterable[MemberState], replay: JavaReplay, finding: Finding) -> Result:
    """Judge the service. `finding` is valid for all but the service's state, and on its own says nothing about the
    promise.
    """
    if replay.why_not:
        return NotApplicable(Promise.SNAPSHOT_IS_REPLAY, f"states are not replayed: {replay.why_not}", is_gap=True)
    if replay.difference is not None:
        first = replay.difference
        doubt = replay.doubt if first.is_of_members else ""
        verdict = Verdict.UNKNOWN if doubt else Verdict.INVALID
        return replace(finding, verdict=verdict, detail=f"{first.text}{doubt}", position=first.position)
    if replay.by_aeron:
        alone = "a member of Aeron alone does the same from the last snapshot as one that reads the whole log"
        return replace(finding, detail=f"{finding.detail}; {alone}, and copies were not used: {replay.by_aeron}")
    compared = 0
    for snapshot in sorted(recorded, key=lambda state: state.position):
        right = replay.states.get(snapshot.position)
        if snapshot.service_id != REPLAYED_SERVICE or right is None:
            continue
        compared += 1
        if snapshot.hash == right.digest:
            continue
        owners = "the replay", snapshot.owner
        where = "" if right.messages is None else f": {state_difference(right.messages, snapshot.state, owners)}"
        detail = (
            f"the snapshot of service {snapshot.service_id} of {snapshot.owner} at position {snapshot.position} has "
            f"the state {snapshot.hash[:_DIGITS]}; copies of the service that read the whole log come to "
            f"{right.digest[:_DIGITS]}, under all conditions and in both roles{where}{replay.doubt}"
        )
        verdict = Verdict.UNKNOWN if replay.doubt else Verdict.INVALID
        members = (snapshot.member_id,) if snapshot.member_id >= 0 else ()
        return replace(finding, verdict=verdict, detail=detail, members=members, position=snapshot.position)
    if not compared and not replay.cuts:
        why = "the log has no entry after which a copy of the service could begin"
        return NotApplicable(Promise.SNAPSHOT_IS_REPLAY, f"states are not replayed: {why}", is_gap=True)
    copies = f"{compared} states are those of a replay, and copies from {replay.cuts} snapshots do as it does"
    return replace(finding, detail=f"{finding.detail}; {copies}{replay.note}")
