"""Judges `snapshot-is-replay` for a user's Python service, by what its copies did and what members recorded."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, Protocol

from upheaval.checkers.own.own_replay import OwnReplay
from upheaval.checkers.promises import Promise
from upheaval.checkers.states.member_state import MemberState
from upheaval.checkers.states.snapshot_fields import REPLAYED_SERVICE
from upheaval.checkers.verdict import Finding, NotApplicable, Result, Verdict

_DIGITS: Final = 12
_PROMISE: Final = Promise.SNAPSHOT_IS_REPLAY


class Explained(Protocol):
    """Explains a finding: why states differ at its position or, with `of_requests`, what copies offer and schedule."""

    def __call__(self, finding: Finding, *, of_requests: bool = False) -> Finding:
        """The finding with its explanation."""


def judge_own(recorded: Iterable[MemberState], own: OwnReplay, finding: Finding, explained: Explained | None) -> Result:
    """Judge the service. `finding` is valid for all but the service's state, and on its own says nothing about the
    promise.

    `explained` is None if the finding on another promise already has the explanation.
    """
    if own.why_not:
        return NotApplicable(_PROMISE, f"states are not replayed: {own.why_not}", is_gap=True)
    broken = _broken(recorded, own, finding, explained)
    if broken is not None:
        return broken
    if not own.compared:
        return NotApplicable(_PROMISE, f"states are not replayed: {_why_nothing(own)}{_as_is(own)}", is_gap=True)
    return replace(finding, detail=f"{finding.detail}{_kept(own)}")


def _broken(
    recorded: Iterable[MemberState], own: OwnReplay, finding: Finding, explained: Explained | None
) -> Finding | None:
    """The first kind of difference that shows. Each kind causes the later ones, too."""
    explain: Explained = explained or _as_it_is
    as_is, changes = _as_is(own), ", ".join(cause.changed for cause in own.changed)
    broken = replace(finding, verdict=Verdict.INVALID)
    for snapshot in sorted(recorded, key=lambda snapshot: snapshot.position):
        right = own.hashes.get(snapshot.position)
        if snapshot.service_id == REPLAYED_SERVICE and right is not None and own.form(snapshot.hash) != own.form(right):
            detail = (
                f"the snapshot of service {snapshot.service_id} of {snapshot.owner} at position {snapshot.position} "
                f"has the state {snapshot.hash[:_DIGITS]}; a fresh copy of the service that reads the whole log, "
                f"with another {changes}, comes to {right[:_DIGITS]}: a replay of the log gives another state{as_is}"
            )
            members = (snapshot.member_id,) if snapshot.member_id >= 0 else ()
            return explain(replace(broken, detail=detail, members=members, position=snapshot.position))
    if own.difference:
        detail = f"a copy of the service that begins with its own snapshot at position {own.position} {own.difference}"
        what = "the snapshot does not hold all of the state"
        return replace(broken, detail=f"{detail}: {what}{as_is}", position=own.position)
    if own.unsteady:
        what = f"two replays of the log with another clock, random numbers and addresses differ: {own.unsteady}"
        return explain(replace(broken, detail=what, position=own.unsteady_position), of_requests=True)
    if own.parted >= 0:
        what = f"two replays of the log, one of them with another {changes}, differ after position {own.parted}"
        return explain(replace(broken, detail=what + as_is, position=own.parted))
    if own.unasked:
        return replace(broken, detail=own.unasked, position=own.unasked_position)
    return None


def _as_it_is(finding: Finding, *, of_requests: bool = False) -> Finding:  # noqa: ARG001 - of `Explained`
    return finding


def _as_is(own: OwnReplay) -> str:
    return f"; states are compared as they are: the canonical form {own.form_error}" if own.form_error else ""


def _why_nothing(own: OwnReplay) -> str:
    if not own.chosen:
        return "the log has no entries"
    return f"no copy began with a snapshot at one of {own.chosen} places: {own.why_cut}"


def _kept(own: OwnReplay) -> str:
    """Summarise what was compared and what was not."""
    tried = f"; copies that begin with a snapshot at {own.compared} places do what a replay does"
    if own.compared < own.chosen:
        tried += f", of {own.chosen} that were chosen: {own.why_cut}"
    if own.answers:
        tried += f"; answers are not compared, because two replays answer otherwise: {own.answers}"
    usual = f", in the environment and directory of the judge, as otherwise {own.why_usual}" if own.why_usual else ""
    between = f"; states between them are not compared: {own.why_not_parted}" if own.why_not_parted else ""
    return f"{tried}; {len(own.hashes)} states are those of a replay{usual}{_as_is(own)}{between}"
