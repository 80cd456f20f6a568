"""`upheaval replay --until`: the members of a simulated run at a moment, as text or JSON."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from upheaval.campaign.seed import SeedRun, seed_of_run
from upheaval.cli.fault_commands import ReplayOptions
from upheaval.cli.tables import number, table
from upheaval.errors import UsageError
from upheaval.execution.exact_run import exact_of_run
from upheaval.execution.moment import MemberAt, Moment, play_until
from upheaval.execution.run import read_origin
from upheaval.execution.simulated import SimulatedStage
from upheaval.load.own import load_maker
from upheaval.records import owned_folder
from upheaval.runtime_names import SIMULATED
from upheaval.workload import Load
from upheaval_chaos.exit_status import CommandStatus
from upheaval_node.types import S

_DIGEST: Final = 16
"""How many characters of a digest a table has."""


def show_moment(options: ReplayOptions, seconds: float) -> int:
    """Print the members at that moment. Raises `UsageError` for a run that cannot be played again up to a moment."""
    if options.dir is not None:
        raise UsageError("--until keeps no run folder: leave out --dir")
    if options.runtime not in (None, SIMULATED):
        raise UsageError(f"--until is for simulated runs: leave out --runtime {options.runtime}")
    with owned_folder("moment") as scratch:
        moment = _moment(options.run, round(seconds * S), scratch / "run")
    print(json.dumps(moment.to_fields(), indent=2) if options.json else as_text(moment))
    return CommandStatus.VALID


def _moment(folder: Path, since_ns: int, scratch: Path) -> Moment:
    if exact_of_run(folder) is not None:
        raise UsageError(f"{folder} is an exact script: --until is for runs of scenarios and of seeds")
    origin = seed_of_run(folder)
    if origin is not None:
        run = SeedRun(origin.swarm(), scratch, origin.planted)
        return play_until(run.swarm.scenario(), run.stage, since_ns, run.driver)
    scenario, recorded = read_origin(folder)
    if recorded.runtime != SIMULATED:
        raise UsageError(f"{folder} ran on the {recorded.runtime} runtime: --until is for simulated runs")
    scenario, own = scenario.run_by(recorded.own), recorded.own
    make_load = Load if own is None else load_maker(own.user, own.source)
    stage = SimulatedStage(scenario, recorded.seed, scratch, recorded.planted, make_load=make_load)
    return play_until(scenario, stage, since_ns)


def as_text(moment: Moment) -> str:
    """Tables of members, services, sessions, timers and files. One that is empty is left out."""
    parts = [f"{moment.since_ns / S:.3f} s after the start of the run", table([_MEMBERS, *_rows(moment.members)])]
    for heading, rows in (
        (["member", "service", "state at", "digest of its state", "messages not in the log"], _services(moment)),
        (["session", "state", "opened at", "members"], _sessions(moment)),
        (["timer", "deadline", "members"], _timers(moment)),
        (["member", "file", "bytes", "durable"], _files(moment)),
    ):
        lines = list(rows)
        if lines:
            parts.append(table([heading, *lines]))
    return "\n\n".join(parts)


_MEMBERS: Final = ["member", "role", "election", "module", "term", "appended", "committed", "sessions", "timers"]


def _rows(members: Sequence[MemberAt]) -> Iterator[list[str]]:
    for member in members:
        status = member.status
        if not status.alive:
            yield [str(status.member_id), "down", *[""] * (len(_MEMBERS) - 2)]
            continue
        numbers = (status.leadership_term_id, status.append_position, status.commit_position)
        yield [
            str(status.member_id),
            status.role or "",
            status.election_state or "",
            member.module_state,
            *map(number, numbers),
            str(len(member.sessions)),
            str(len(member.timers)),
        ]


def _services(moment: Moment) -> Iterator[list[str]]:
    for member in moment.members:
        for one in member.services:
            name = f"{one.service} {one.name}"
            yield [
                str(member.status.member_id),
                name,
                str(one.log_position),
                one.digest[:_DIGEST],
                str(one.pending),
            ]


def _sessions(moment: Moment) -> Iterator[list[str]]:
    """Sessions that several members have alike are one row."""
    having: dict[tuple[int, str, int], list[str]] = {}
    for member in moment.members:
        for one in member.sessions:
            key = one.session, one.state, one.opened_position
            having.setdefault(key, []).append(str(member.status.member_id))
    for (session, state, position), members in sorted(having.items()):
        yield [str(session), state, number(position), ", ".join(members)]


def _timers(moment: Moment) -> Iterator[list[str]]:
    having: dict[tuple[int, int], list[str]] = {}
    for member in moment.members:
        for one in member.timers:
            having.setdefault((one.deadline, one.timer), []).append(str(member.status.member_id))
    for (deadline, timer), members in sorted(having.items()):
        yield [str(timer), str(deadline), ", ".join(members)]


def _files(moment: Moment) -> Iterator[list[str]]:
    for member in moment.members:
        for one in member.files:
            yield [str(member.status.member_id), one.path, str(one.length), "yes" if one.is_durable else "no"]
