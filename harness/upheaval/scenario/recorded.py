"""The recorded schedule of a run, as a scenario: which faults hit which members, and when.

A scenario names roles and conditions; its run resolved them to members and moments. `faults.jsonl` has both: each fault
as a statement, and the time and the number of acknowledged operations at which it was requested and healed. This module
runs nothing.
"""

from typing import Final, NamedTuple

from upheaval.errors import UsageError
from upheaval.records import (
    ADMIN_COMMANDS,
    BACKUP,
    ENDINGS,
    FORCED_END,
    AdminCommand,
    ControlRecord,
    Outcome,
    RunFolder,
)
from upheaval.scenario.statements import Text
from upheaval.scenario.text import parse_scenario
from upheaval.scenario.values import Scenario
from upheaval_node.types import MS

_HEAD: Final = ("title", "cluster", "workload")
"""The original statements that come before the steps of a recorded schedule; promises come after them."""
_NO_WITNESSES: Final = "witnesses off"
"""The witness snapshots of a custom service are among the recorded commands."""


class _Event(NamedTuple):
    ns: int
    operations: int
    statement: str


def recorded_scenario(origin: Scenario, run: RunFolder) -> Scenario:
    """The recorded schedule of a run. Raises `UsageError` if the run has faults that no scenario injected."""
    statements = list(Text(origin.text, origin.name).statements())
    head = [statement.code for statement in statements if statement.first in _HEAD]
    promises = [statement.code for statement in statements if statement.first == "promise"]
    if ":" in (run.read_manifest().service or ""):
        head.append(_NO_WITNESSES)
    text = "\n".join([*head, *_steps(run), *promises, ""])
    return parse_scenario(text, name=origin.name, where=f"the recorded schedule of {run.path}")


def _steps(run: RunFolder) -> list[str]:
    """Every event at its moment, and a wait at the end until as many operations are acknowledged as in the run."""
    last_ns, acknowledged = _load(run)
    steps, ended = [], False
    for event in sorted(_events(run)):
        ended = event.statement in ENDINGS or (ended and event.statement != AdminCommand.START)
        steps.append(f"wait moment operations={event.operations} after-ms={max(event.ns - last_ns, 0) // MS}")
        steps.append(event.statement)
        last_ns = event.ns
    # A run that broke a promise at its end may have no start after it.
    return [*steps, *([AdminCommand.START] if ended else []), "wait leader", f"wait moment operations={acknowledged}"]


def _events(run: RunFolder) -> list[_Event]:
    events = []
    for number, fault in enumerate(run.read_faults(), start=1):
        if not fault.statement or fault.inject_operations is None:
            raise UsageError(f"{run.faults_file}:{number}: {fault.what} of {fault.where} was made by no scenario")
        name = fault.name or f"fault-{number}"
        asked_ns = fault.inject_begin_ns if fault.asked_ns is None else fault.asked_ns
        events.append(_Event(asked_ns, fault.inject_operations, f"inject {name} {fault.statement}"))
        if fault.heal_begin_ns is not None and fault.heal_operations is not None:
            events.append(_Event(fault.heal_begin_ns, fault.heal_operations, f"heal {name}"))
    events += [_Event(control.begin_ns, control.operations, control.what) for control in repeatable(run)]
    return events


def repeatable(run: RunFolder, *, proved_only: bool = False) -> list[ControlRecord]:
    """The commands that were given to the members and the backup of a run, without ends by the harness itself.

    Raises `UsageError` for a command that scenarios have no statement for, such as those of a standby.
    """
    given = [control for control in run.read_controls() if control.what != FORCED_END]
    given = [control for control in given if control.proof.holds or not proved_only]
    for control in given:
        words = control.what.split()
        if words[0] not in (*ADMIN_COMMANDS, BACKUP) or any(word.startswith("name=") for word in words):
            raise UsageError(f"{run.controls_file}: scenarios have no statement for `{control.what}`")
    return given


def _load(run: RunFolder) -> tuple[int, int]:
    """When the load began, and how many operations were acknowledged."""
    begin_ns, acknowledged = None, 0
    for operation in run.read_history():
        begin_ns = operation.invoke_ns if begin_ns is None else min(begin_ns, operation.invoke_ns)
        acknowledged += operation.outcome is Outcome.OK
    if begin_ns is None:
        raise UsageError(f"{run.history_file} holds no operation to replay")
    return begin_ns, acknowledged
