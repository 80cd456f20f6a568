"""`upheaval carry`: a simulated failure on real members: its schedule, the rate, and whether it fails alike."""

import json
from pathlib import Path
from typing import Final

from upheaval.campaign.carry import Carried, Schedule, carried, schedule_of
from upheaval.campaign.seed import seed_of_run
from upheaval.cli.fault_commands import CarryOptions
from upheaval.cli.new_folder import run_folder
from upheaval.cli.output import note
from upheaval.cli.run import perform
from upheaval.cli.shrink import SCENARIO_FILE, SUFFIX
from upheaval.errors import EnvironmentFault, UnknownOutcome, UsageError
from upheaval.execution.run import RESULT_FILE, read_origin
from upheaval.records import Json, jsonfields, write_atomically
from upheaval.runtime_names import PROCESS, SIMULATED
from upheaval_chaos.exit_status import CommandStatus

SIMULATED_RUN: Final = "simulated"
"""The folder of the simulated run, beside those of the tries."""
TEXT_FILE: Final = "carried.scenario"


def carry(options: CarryOptions) -> int:
    """Invalid when the promise was broken on the members, unknown when no try showed it."""
    text, name, seed = _failure(options.run.absolute())
    with run_folder(options.out, f"{name}-carried") as folder:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} is there already and not an empty folder: give another --out")
        schedule = schedule_of(text, name, seed, folder / SIMULATED_RUN)
        write_atomically(folder / TEXT_FILE, schedule.scenario.text)
        note(f"in the simulation: {schedule.wanted}")
        done = _tries(schedule, options, folder)
    print(_as_json(done, schedule, folder) if options.json else _as_text(done, schedule, options, folder), flush=True)
    return CommandStatus.BROKEN if done.broken else CommandStatus.UNKNOWN


def _failure(run: Path) -> tuple[str, str, int]:
    """The text of the failure, its name, and its seed in the simulation."""
    for folder in (run, run.with_name(f"{run.name}{SUFFIX}")):
        if (folder / SCENARIO_FILE).is_file():
            origin = seed_of_run(folder) or seed_of_run(run)
            seed = read_origin(run)[1].seed if origin is None else origin.seed
            return jsonfields.read_text(folder / SCENARIO_FILE), run.name.removesuffix(SUFFIX), seed
    if not (run / RESULT_FILE).is_file():
        raise UsageError(f"{run} has no scenario that fails: make one by `upheaval shrink {run}`")
    scenario, recorded = read_origin(run)
    if recorded.runtime != SIMULATED:
        raise UsageError(f"{run} ran on the {recorded.runtime} runtime: only a simulated failure can be carried")
    return scenario.text, recorded.scenario, recorded.seed


def _tries(schedule: Schedule, options: CarryOptions, folder: Path) -> Carried:
    scenario = schedule.scenario.on_system(options.system)
    reports, failures = [], []
    for number in range(1, options.tries + 1):
        try:
            reports.append(perform(scenario, PROCESS, number, folder / f"try-{number}").report)
        except (EnvironmentFault, UnknownOutcome) as error:
            # The other tries still show something.
            failures.append(" ".join(str(error).split()))
    return carried(schedule.wanted, reports, failures)


def _as_text(done: Carried, schedule: Schedule, options: CarryOptions, folder: Path) -> str:
    low, high = done.interval
    lines = [
        f"in the simulation: {done.wanted}",
        f"on {options.system}: {done.wanted.promise} broken in {done.broken} of {done.tries} runs "
        f"(95 %: {low:.0%} to {high:.0%}), in {done.alike} of them alike",
        *(f"also broken: {promise} in {count}" for promise, count in done.others.most_common()),
        *(f"not shown in {count}: {reason}" for reason, count in done.prevented.most_common()),
        *(f"changed: {change}" for change in schedule.changes),
        *(f"  {line}" for line in schedule.scenario.text.splitlines()),
        str(folder),
    ]
    return "\n".join(lines)


def _as_json(done: Carried, schedule: Schedule, folder: Path) -> str:
    low, high = done.interval
    fields: dict[str, Json] = {
        "run": str(folder),
        "fingerprint": done.wanted.to_fields(),
        "tries": done.tries,
        "broken": done.broken,
        "alike": done.alike,
        "interval": [round(low, 4), round(high, 4)],
        "others": dict(done.others),
        "prevented": dict(done.prevented),
        "changes": list(schedule.changes),
        "scenario": schedule.scenario.text,
    }
    return json.dumps(fields, indent=2)
