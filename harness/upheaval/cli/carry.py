"""`upheaval carry`: a simulated failure on real members: its schedule, the rate, and whether it fails alike."""

import json
import shlex
from pathlib import Path
from typing import Final

from upheaval.campaign.carry import Carried, Schedule, carried, schedule_of
from upheaval.campaign.seed import SeedOrigin, seed_of_run
from upheaval.campaign.shrink_text import SCENARIO_FILE
from upheaval.campaign.swarm_tape import tape_of
from upheaval.campaign.text_tape import read_text_tape, tape_of_text
from upheaval.campaign.tries import TEXT_TRIES_FILE, TRIES_FILE
from upheaval.checkers.verdict import Report
from upheaval.cli.fault_commands import CarryOptions
from upheaval.cli.new_folder import run_folder
from upheaval.cli.output import note
from upheaval.cli.run import perform
from upheaval.cli.shrink import SUFFIX, smallest_of
from upheaval.errors import EnvironmentFault, UnknownOutcome, UsageError
from upheaval.execution.run import StoredResult, read_origin
from upheaval.records import OWN_SYSTEM, Json, jsonfields, write_atomically
from upheaval.runtime_names import PROCESS, SIMULATED
from upheaval.system import system_named
from upheaval_chaos.exit_status import CommandStatus
from upheaval_node.cluster.rules import OWN

SIMULATED_RUN: Final = "simulated"
"""The folder of the simulated run, beside those of the tries."""
TEXT_FILE: Final = "carried.scenario"
_NOT_PLAIN: Final = "ran a planted bug or a service of its own: members of Aeron have neither"


def carry(options: CarryOptions) -> int:
    """Invalid when the promise was broken on the members, unknown when no try showed it."""
    _require_other_system(options.system)
    text, name, seed = _failure(options.run.absolute())
    with run_folder(options.out, f"{name}-carried") as folder:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} exists and is not an empty folder: give another --out")
        schedule = schedule_of(text, name, seed, folder / SIMULATED_RUN)
        write_atomically(folder / TEXT_FILE, schedule.scenario.text)
        note(f"in the simulation: {schedule.wanted}")
        done = _tries(schedule, options, folder)
    print(_as_json(done, schedule, folder) if options.json else _as_text(done, schedule, options, folder), flush=True)
    return CommandStatus.BROKEN if done.broken else CommandStatus.UNKNOWN


def _failure(run: Path) -> tuple[str, str, int]:
    """The text of the failure, its name, and its seed in the simulation."""
    origin = run.with_name(run.name.removesuffix(SUFFIX))
    for folder in (run, smallest_of(run)):
        if (folder / SCENARIO_FILE).is_file():
            if folder != run:
                _require_search_of(run, folder)
            return jsonfields.read_text(folder / SCENARIO_FILE), origin.name, _seed(folder, origin)
    if seed_of_run(run) is not None:
        raise UsageError(f"{run} is the run of a seed, which has no text yet: upheaval shrink {shlex.quote(str(run))}")
    scenario, recorded = read_origin(run)
    if recorded.runtime != SIMULATED:
        raise UsageError(f"{run} ran on the {recorded.runtime} runtime: carry a simulated failure")
    _require_plain(run, recorded)
    return scenario.text, recorded.scenario, recorded.seed


def _seed(folder: Path, run: Path) -> int:
    """The seed with which a shrunk text fails, which may be another one than that of its run."""
    origin = seed_of_run(folder) or seed_of_run(run) or read_origin(run)[1]
    _require_plain(run, origin)
    search = _search_in(folder / TEXT_TRIES_FILE)
    if search.get("planted") is not None or "code" in search:
        raise UsageError(f"{folder} {_NOT_PLAIN}")
    return jsonfields.integer(search, "seed") if search else origin.seed


def _require_search_of(run: Path, smallest: Path) -> None:
    """Raises `UsageError` if another run had that name when the search began."""
    made = seed_of_run(run)
    if made is None:
        scenario, recorded = read_origin(run)
        file, tape, rules = TEXT_TRIES_FILE, read_text_tape(tape_of_text(scenario.text)), OWN
        _require_plain(run, recorded)
        seed = recorded.seed
    else:
        _require_plain(run, made)
        file, tape, rules, seed = TRIES_FILE, tape_of(made.swarm()), made.compatibility, made.seed
    search = _search_in(smallest / file)
    searched = {name: search.get(name) for name in ("seed", "planted", "tape")}
    wanted = {"seed": seed, "planted": None, "tape": tape.to_fields()}
    if searched != wanted or search.get("compatibility", OWN) != rules or "code" in search:
        raise UsageError(f"{smallest} is the search of another run than {run}: move it, or carry {smallest} itself")


def _search_in(tries: Path) -> dict[str, Json]:
    """The fields that identify the search with these tries; none without the file."""
    if not tries.is_file():
        return {}
    return next((fields for _, fields in jsonfields.read_lines(tries, torn_end_allowed=True)), {})


def _require_plain(run: Path, origin: SeedOrigin | StoredResult) -> None:
    if origin.planted is not None or origin.own is not None:
        raise UsageError(f"{run} {_NOT_PLAIN}")


def _require_other_system(text: str) -> None:
    system_named(text)
    if text.partition(":")[0] == OWN_SYSTEM:
        raise UsageError(f"--system {text}: the simulation runs this one already: name aeron or aeron:VERSION")


def _tries(schedule: Schedule, options: CarryOptions, folder: Path) -> Carried:
    scenario = schedule.scenario.on_system(options.system)
    reports: list[Report] = []
    failures: list[str] = []
    for number in range(1, options.tries + 1):
        try:
            reports.append(perform(scenario, PROCESS, number, folder / f"try-{number}").report)
        except (EnvironmentFault, UnknownOutcome) as error:
            if isinstance(error, EnvironmentFault) and number == 1:
                raise
            # The other tries still show something.
            failures.append(" ".join(str(error).split()))
    return carried(schedule.wanted, reports, failures)


def _as_text(done: Carried, schedule: Schedule, options: CarryOptions, folder: Path) -> str:
    low, high = done.interval
    lines = [
        f"in the simulation: {done.wanted}",
        f"on {options.system}: {done.wanted.promise} broken in {done.broken} of {done.judged} runs "
        f"(95 %: {low:.0%} to {high:.0%}), in {done.alike} of them alike",
        *([f"not judged: {done.tries - done.judged} of {done.tries} tries"] if done.judged < done.tries else []),
        *(f"seen in {count}: {broken}" for broken, count in done.seen.most_common()),
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
        "judged": done.judged,
        "broken": done.broken,
        "alike": done.alike,
        "interval": [round(low, 4), round(high, 4)],
        "seen": dict(done.seen),
        "prevented": dict(done.prevented),
        "changes": list(schedule.changes),
        "scenario": schedule.scenario.text,
    }
    return json.dumps(fields, indent=2)
