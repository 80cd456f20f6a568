"""`upheaval fixed`: whether so many seeds without a failure show that it is gone."""

import json

from upheaval.campaign.findability import CHANCE_MAX, drawn_seeds_with, rate_excluded, seeds_needed, seeds_with
from upheaval.checkers.promises import Promise, promise_named
from upheaval.checkers.verdict import Verdict
from upheaval.cli.fault_commands import FixedOptions
from upheaval.cli.output import note
from upheaval.errors import UsageError
from upheaval.records import Json
from upheaval_node.suggestions import did_you_mean


def fixed(options: FixedOptions) -> int:
    """0 when enough seeds since are without the failure, 1 when one shows it, 3 when there are too few."""
    promise = promise_named(options.promise)
    if promise is None:
        raise UsageError(f"unknown promise {options.promise!r}{did_you_mean(options.promise, list(Promise))}")
    wanted = {"verdict": Verdict.INVALID.text, "promise": str(promise)}
    if options.rule is not None:
        wanted["rule"] = options.rule
    before, since = drawn_seeds_with(options.before, wanted), seeds_with(options.since, wanted)
    if not before.failed:
        tried_first = ": those that failed earlier and were tried first show no rate" if before.remembered else ""
        what = " ".join(list(wanted.values())[1:])
        raise UsageError(f"no seed that {options.before} drew breaks {what}{tried_first}")
    others = [subject for subject in since.subjects if not any(map(subject.may_be, before.subjects))]
    if others:
        ran = " and ".join(sorted(map(str, before.subjects)))
        raise UsageError(f"seeds of {min(map(str, others))} show nothing of {ran}, which {options.before} ran")
    for campaigns, subjects in ((str(options.before), before.subjects), ("a campaign since", since.subjects)):
        if not all(subject.is_complete for subject in subjects):
            note(
                f"{campaigns} was written by an older version, whose lines do not say --search, --model and which "
                "seeds were tried first: make sure that these options are the same, or run it again"
            )
    needed = seeds_needed(before.rate_min)
    fields: dict[str, Json] = {
        "before": {"seeds": before.counted, "failed": before.failed, "rate_min": round(before.rate_min, 6)},
        "since": {"seeds": since.counted, "failed": since.failed},
        "needed": needed,
        "excluded_rate": rate_excluded(since.counted) if not since.failed else None,
    }
    certainty = f"{1 - CHANCE_MAX:.0%}"
    if since.failed:
        verdict, text = Verdict.INVALID, f"not fixed: {since.failed} of {since.counted} seeds since show it"
    elif since.counted < needed:
        more = needed - since.counted
        verdict, text = Verdict.UNKNOWN, f"not shown: {more} more seeds without it are needed for {certainty}"
    else:
        verdict, text = Verdict.VALID, f"fixed with {certainty}: {since.counted} seeds without it, {needed} were needed"
    text += f" ({before.failed} of {before.counted} seeds showed it before: at least {before.rate_min:.2%} of all)"
    print(json.dumps(fields, indent=2) if options.json else text)
    return verdict.exit_status
