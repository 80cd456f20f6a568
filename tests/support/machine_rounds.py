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
from upheaval.scenario import parse_scenario
from upheaval_chaos import faults, host_faults

HURRIED_S = 6.0
"""What will never happen need not be waited for as long as in earnest."""
PATIENT_S = 60.0


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
            record = one_round(stage.target, fault_of(statement), sabotage)
            evidence = None if record.inject_proof is None else record.inject_proof.evidence
            print(json.dumps([statement, name, record.is_proved, evidence]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
