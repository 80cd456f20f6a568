"""Runs a recorded failure of the simulation again: the same execution, or another one that fails as that did."""

from dataclasses import replace
from pathlib import Path

from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.seed import RESTORED, SeedOrigin, keep_seed
from upheaval.campaign.shrink_seed import try_of
from upheaval.campaign.text_tries import broken_in, fingerprints_of
from upheaval.campaign.tries import Try
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.errors import UnknownOutcome, UsageError
from upheaval.records import owned_folder


def seed_again(origin: SeedOrigin) -> Try:
    """Run and judge a seed, and leave nothing."""
    with owned_folder("campaign") as scratch:
        made = keep_seed(origin, scratch / f"seed-{origin.seed}")
        return replace(try_of(made.outcome), digest=made.stage.digest())


def as_recorded(again: Try, digest: str | None, run: Path) -> Try:
    """The new run with the failure of the recorded one, of that digest, as its first fingerprint.

    Raises `UsageError` if that breaks no promise, and `UnknownOutcome` if it does not fail as that did: the node or the
    simulation may have changed since.
    """
    shown = again.fingerprints if again.digest == digest else _recorded(run)
    if not shown:
        raise UsageError(f"{run} breaks no promise: name a run that is invalid")
    if not again.fingerprints:
        raise UnknownOutcome(f"{run} breaks no promise when it is run again: name a run that is invalid")
    wanted = shown[0]
    if wanted not in again.fingerprints:
        raise UnknownOutcome(
            f"{run} failed with {wanted}, but fails with {again.fingerprints[0]} when it is run again: "
            "the node or the simulation has changed since"
        )
    return replace(again, fingerprints=tuple(dict.fromkeys((wanted, *again.fingerprints))))


def _recorded(run: Path) -> tuple[Fingerprint, ...]:
    """The fingerprints of a run folder. The folder of a seed has one sentence about its restored cluster: what that
    broke takes the place of it.
    """
    shown = fingerprints_of(verify_run(run))
    sentence = Fingerprint.of(Verdict.INVALID, Promise.INVARIANTS, None)
    if sentence not in shown or not (run / RESTORED).is_dir():
        return tuple(shown)
    at = shown.index(sentence)
    return (*shown[:at], *(broken_in(verify_run(run / RESTORED)) or [sentence]), *shown[at + 1 :])
