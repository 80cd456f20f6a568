"""Faults of machines on members in processes, with injectors that lie and with one that does not; a JSON line a round.

A program of its own, because mounting needs a name space in which the caller is root:
`unshare --user --map-root-user --mount python -m support.machine_rounds FOLDER STATEMENT SABOTAGE ..`
"""

import json
import sys
from pathlib import Path

from support.fault_cases import fault_of, one_round
from support.live_clusters import live_stage
from support.saboteur import Sabotage
from upheaval.execution.live import LiveStage
from upheaval.runtimes.process_machines import ProcessMachines
from upheaval.scenario import parse_scenario
from upheaval_chaos import faults, host_faults
from upheaval_chaos.host_faults import MIB

HURRIED_S = 6.0
"""What will never happen need not be waited for as long as in earnest."""
PATIENT_S = 60.0
PRESENT = "megabytes=999"
"""Stands for a limit of memory that the member will meet with the next MiB of files that it writes."""


def main(folder: str, *rounds: str) -> None:
    statements = dict.fromkeys(rounds[::2])
    steps = "".join(f"inject x{number} {statement}\n" for number, statement in enumerate(statements))
    text = f"title machines\nworkload rate=60\nwait operations 1\n{steps}"
    with live_stage(parse_scenario(text, name="machines", where="machines"), Path(folder)) as stage:
        for statement, name in zip(rounds[::2], rounds[1::2], strict=True):
            sabotage = Sabotage(name)
            for module in (faults, host_faults):
                takes_effect = sabotage in (Sabotage.NONE, Sabotage.STAYS)
                module.TAKES_EFFECT_S = PATIENT_S if takes_effect else HURRIED_S  # type: ignore[misc]
                module.COMES_BACK_S = PATIENT_S if sabotage is Sabotage.NONE else HURRIED_S  # type: ignore[misc]
            record = one_round(stage.target, fault_of(with_present(statement, stage)), sabotage)
            evidence = None if record.inject_proof is None else record.inject_proof.evidence
            print(json.dumps([statement, name, record.is_proved, evidence]), flush=True)


def with_present(statement: str, stage: LiveStage) -> str:
    """The statement about the first follower, with what that one uses now."""
    if PRESENT not in statement:
        return statement
    machines = stage.target.hosts("look", "memory-limit")
    assert isinstance(machines, ProcessMachines)
    follower = next(member_id for member_id in stage.target.member_ids if member_id != stage.target.leader())
    used = machines._groups[follower].memory().used
    return statement.replace("follower", f"member-{follower}").replace(PRESENT, f"megabytes={used // MIB + 1}")


if __name__ == "__main__":
    main(*sys.argv[1:])
