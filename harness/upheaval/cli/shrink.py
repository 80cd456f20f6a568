"""`upheaval shrink`: the simplest run that breaks a promise as another one did, and the text of a scenario for it."""

import json
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from upheaval.campaign.again import as_recorded, seed_again
from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.kept import KEPT_FILE, alone_in, is_kept_in, mark_kept
from upheaval.campaign.scenario_text import scenario_texts
from upheaval.campaign.seed import SeedOrigin, keep_seed, seed_of_run
from upheaval.campaign.shrink import RUNS_MAX, Budget
from upheaval.campaign.shrink_seed import Smallest, shrink_seed
from upheaval.campaign.shrink_text import SCENARIO_FILE, SmallestText, shrink_text, state_seed
from upheaval.campaign.tape import Fields
from upheaval.campaign.text_tries import TextOrigin, broken_in, try_live_text, try_text
from upheaval.campaign.tries import TEXT_TRIES_FILE, TRIES_FILE, Try
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.cli.fault_commands import ShrinkOptions
from upheaval.cli.output import note
from upheaval.errors import HarnessError, UnknownOutcome, UsageError
from upheaval.execution.known_bugs import rate_interval
from upheaval.execution.run import read_origin
from upheaval.records import Json, RunFolder, owned_folder, read_made_by_test
from upheaval.runtime_names import SIMULATED
from upheaval.runtimes import cluster_file
from upheaval_chaos.exit_status import CommandStatus

SUFFIX: Final = "-smallest"
"""Of the folder beside the run."""


@dataclass(frozen=True, slots=True)
class Left:
    """What a search left in a folder: a plan, a text, or both."""

    folder: Path
    wanted: Fingerprint
    others: dict[Fingerprint, Fields]
    plan: Smallest | None = None
    text: SmallestText | None = None

    @property
    def command(self) -> str:
        """What runs the text."""
        assert self.text is not None
        origin, own = self.text.origin, self.text.origin.own
        words = [
            "upheaval",
            "run",
            str(self.folder / SCENARIO_FILE),
            "--runtime",
            origin.runtime,
            "--seed",
            str(origin.seed),
        ]
        words += [] if origin.system is None else ["--system", origin.system]
        words += ["--launcher", origin.launcher] if origin.launcher else []
        words += ["--jvm", origin.jvm] if origin.jvm else []
        words += [] if origin.planted is None else ["--planted", origin.planted]
        if own is not None:
            options = {"--service": own.service, "--user": own.user, "--model": own.model, "--schema": own.schema}
            words += [word for option, value in options.items() if value for word in (option, value)]
        return shlex.join(words)


def shrink(options: ShrinkOptions) -> int:
    """0 with a simplest run that fails alike; unknown when the run does not fail again."""
    run = options.run.absolute()
    if read_made_by_test(run) is not None:
        raise UsageError(
            f"a pytest test made {run}: its schedule is the test's code, which shrink cannot change; "
            "the steps of a ClusterMachine shrink by themselves"
        )
    out = (options.out or smallest_of(run)).absolute()
    if out == run:
        raise UsageError(f"{out} is the run itself: give another --out")
    budget = Budget(options.runs or RUNS_MAX, options.seconds or float("inf"))
    origin = seed_of_run(run)
    # A search that a campaign began there and did not end: the next campaign would remove it meanwhile.
    with alone_in(out.parent) if is_kept_in(out.parent, out) else nullcontext():
        if origin is None:
            left = shrink_recorded(run, out, budget, options.jobs)
        else:
            failed = as_recorded(seed_again(origin), origin.digest, run)
            left = shrink_into(origin, failed, out, budget, options.jobs)
    print(json.dumps(fields_of(left), indent=2) if options.json else as_text(left), flush=True)
    return CommandStatus.VALID


def smallest_of(run: Path) -> Path:
    """The folder that a search leaves beside its run."""
    return run.with_name(f"{run.name}{SUFFIX}")


def shrink_beside(run: Path) -> None:
    """Shrink an invalid run of a scenario or of a live campaign, and report on standard error."""
    note(f"making it simpler; if interrupted, {shlex.join(['upheaval', 'shrink', str(run)])} continues")
    report_search(str(run), lambda: shrink_recorded(run, smallest_of(run), Budget()))


def report_search(failure: str, search: Callable[[], Left]) -> None:
    """Report on standard error what the search leaves, or why there is none: the command that found the failure ends
    with the status of its verdict either way.
    """
    try:
        report(search())
    except (HarnessError, OSError) as error:
        note(f"{failure} is as simple as it was: {error}")


def shrink_recorded(run: Path, out: Path, budget: Budget, jobs: int = 1) -> Left:
    """Of a run of `upheaval run`, or of a schedule of a live campaign: its text alone."""
    scenario, recorded = read_origin(run)
    origin = TextOrigin(recorded.scenario, recorded.seed, recorded.planted, recorded.own)
    if recorded.runtime != SIMULATED:
        return _shrink_live(_live_origin(run, origin, recorded.runtime), scenario.text, run, out, budget, jobs)
    _make_room(out)
    with owned_folder("campaign") as scratch:
        failed = as_recorded(try_text(origin, scenario.text, scratch), recorded.digest, run)
    return _shrink_text(origin, scenario.text, failed.fingerprints[0], failed, out, budget, jobs)


def _live_origin(run: Path, origin: TextOrigin, runtime: str) -> TextOrigin:
    launcher, jvm, source = cluster_file.start_of(run)
    system = RunFolder(run).read_manifest().system
    return replace(origin, runtime=runtime, system=system, launcher=launcher, jvm=jvm, source=source)


def _shrink_live(origin: TextOrigin, text: str, run: Path, out: Path, budget: Budget, jobs: int) -> Left:
    """Shrink the text of a run of live members. Its worst broken promise has to break again, often."""
    if jobs != 1:
        raise UsageError(f"clusters on the {origin.runtime} runtime run one after the other: leave out --jobs")
    broken = broken_in(verify_run(run))
    if not broken:
        raise UsageError(f"{run} breaks no promise: name a run that is invalid")
    _make_room(out)
    note(f"fails by {broken[0]}; running it again on the {origin.runtime} runtime")
    with owned_folder("campaign") as scratch:
        failed = try_live_text(origin, broken[0], text, scratch)
    if broken[0] not in failed.fingerprints:
        raise UnknownOutcome(
            f"{failed.alike} of {failed.runs} more runs of {run} fail alike: too rarely to compare simpler ones with it"
        )
    return _shrink_text(origin, text, broken[0], failed, out, budget, jobs)


def _shrink_text(
    origin: TextOrigin, text: str, wanted: Fingerprint, failed: Try, out: Path, budget: Budget, jobs: int
) -> Left:
    smallest = shrink_text(origin, text, wanted, failed, out / TEXT_TRIES_FILE, budget, jobs, note)
    return Left(out, wanted, smallest.others, text=smallest)


def _make_room(out: Path) -> None:
    searches = (out / TRIES_FILE, out / TEXT_TRIES_FILE)
    if out.exists() and (not out.is_dir() or (_has_files(out) and not any(map(Path.is_file, searches)))):
        raise UsageError(f"{out} exists and is not the folder of a search: give another --out")
    cluster_file.require_room(out)


def _has_files(out: Path) -> bool:
    """Beside the mark of the campaign whose search it is."""
    return any(entry.name != KEPT_FILE for entry in out.iterdir())


def shrink_into(
    origin: SeedOrigin, failed: Try, out: Path, budget: Budget, jobs: int, campaign: Path | None = None
) -> Left:
    """Leave the run of the simplest plan in that folder, with the tries, and a text that fails alike if there is one.

    A search that was ended goes on there. The campaign in the folder `campaign` keeps one that begins.
    """
    _make_room(out)
    if campaign is not None and not out.exists():
        out.mkdir(parents=True)
        # A search that is killed leaves a folder that the next campaign knows.
        mark_kept(out, campaign)
    begin = time.monotonic()
    smallest = shrink_seed(origin, failed, out / TRIES_FILE, budget, jobs, note)
    # An earlier search that was ended by its budget left its own smallest run.
    for entry in out.iterdir():
        if entry.name not in (TRIES_FILE, TEXT_TRIES_FILE, KEPT_FILE):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    keep_seed(smallest.origin, out)
    runs = 0 if smallest.is_over else max(budget.runs - smallest.runs, 0)
    rest = Budget(runs, budget.seconds - (time.monotonic() - begin))
    text = _state(smallest, out, rest, jobs)
    return Left(out, smallest.wanted, smallest.others, smallest, text)


def _state(smallest: Smallest, out: Path, budget: Budget, jobs: int) -> SmallestText | None:
    origin, wanted = smallest.origin, smallest.wanted
    texts = scenario_texts(origin.swarm(), is_watched=wanted.promise == Promise.INVARIANTS)
    stated = state_seed(origin.seed, texts, origin.planted, origin.own, wanted)
    if stated is None:
        return None
    made, text, shown = stated
    # An earlier start that its budget ended may have come to another text.
    return shrink_text(made, text, wanted, shown, out / TEXT_TRIES_FILE, budget, jobs, note, replaces=True)


def fields_of(left: Left) -> dict[str, Json]:
    """As `--json` prints it."""
    fields: dict[str, Json] = {"run": str(left.folder), "fingerprint": left.wanted.to_fields()}
    if left.plan is not None:
        plan = left.plan
        fields |= {"runs": plan.runs, "is_over": plan.is_over, "faults": plan.faults, **plan.shown.to_fields()}
        fields["tape"] = plan.tape.to_fields()
    if left.text is not None:
        text = left.text
        fields["scenario"] = {
            "text": text.marked,
            "command": left.command,
            "runs": text.runs,
            "is_over": text.is_over,
            # The runs of a live text's own try are among those of the search.
            **replace(text.shown, runs=1).to_fields(),
            "fresh_runs": text.fresh_runs,
            "fresh_failures": text.fresh,
            "interval": [round(share, 4) for share in rate_interval(text.fresh, text.fresh_runs)],
        }
    fields["others"] = [
        {"fingerprint": fingerprint.to_fields(), "tape": dict(tape)} for fingerprint, tape in left.others.items()
    ]
    return fields


def as_text(left: Left) -> str:
    """For people: what is left, the other findings, and where it is."""
    lines = [f"fails alike: {left.wanted}"]
    if left.plan is not None:
        lines += _plan_lines(left.plan)
    if left.text is not None:
        text = left.text
        lines += [
            f"as a scenario, after {text.runs} runs: {text.shown.operations} operations acknowledged in "
            f"{text.shown.run_ms / 1000:g} {'seconds' if text.origin.is_live else 'virtual seconds'}; {_rate(text)}",
            *(f"  {line}" for line in text.marked.splitlines()),
            f"again: {left.command}",
        ]
    elif left.plan is not None and not left.plan.is_over:
        lines.append("no scenario of these faults fails alike: what it needs has no statement")
    lines += [f"another failure on the way: {fingerprint}" for fingerprint in left.others]
    return "\n".join([*lines, str(left.folder)])


def _rate(text: SmallestText) -> str:
    low, high = rate_interval(text.fresh, text.fresh_runs)
    runs = "more runs" if text.origin.is_live else "other seeds"
    return f"{text.fresh} of {text.fresh_runs} {runs} fail alike (95 %: {low:.0%} to {high:.0%})"


def _plan_lines(plan: Smallest) -> list[str]:
    swarm, shown = plan.origin.swarm(), plan.shown
    faults = ", ".join(swarm.shown_faults) or "no faults"
    lines = [
        f"smallest of {plan.runs} runs: {swarm.members} members, {swarm.seconds} s of load, {faults}; "
        f"{shown.operations} operations acknowledged in {shown.run_ms / 1000:g} virtual seconds"
    ]
    return [*lines, "the budget ended the search: the same command with more --runs goes on"] if plan.is_over else lines


def report(left: Left) -> None:
    """On standard error, beside the figures of a campaign."""
    print(as_text(left), file=sys.stderr, flush=True)
