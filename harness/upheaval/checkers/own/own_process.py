"""Runs code of a user's own in a process of its own, under other conditions than members have, and bounded in time.

What is judged must not be run by the judge: it may never end, end the process, or change what others see.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection
from typing import Any, Final

from upheaval.checkers.own import replay_conditions
from upheaval.checkers.own.causes import Cause
from upheaval_chaos.programs import ENCODING, ERRORS

TIMEOUT_S: Final = 180.0
"""Of the clock on the wall: the machine may do other things meanwhile."""
_SHOWN: Final = 200


def ask_own_code(
    module: str,
    told: dict[str, Any],
    changed: Collection[Cause] = (Cause.HASH_SEED,),
    timeout_s: float | None = None,
) -> dict[str, Any] | str:
    """What the program `module` answers to that, both as JSON; a text says why it does not.

    `told` has the folder of the code as `source`; the bound is `TIMEOUT_S` unless another one is given. Of what is
    `changed` the process changes in itself what it can only there, see `replay_conditions`.
    """
    limit_s = TIMEOUT_S if timeout_s is None else timeout_s
    try:
        with replay_conditions.directory(changed) as directory:
            done = subprocess.run(
                [*replay_conditions.LAUNCHER, module],
                input=json.dumps(told),
                capture_output=True,
                encoding=ENCODING,
                errors=ERRORS,
                timeout=limit_s,
                env=replay_conditions.environment(changed),
                cwd=directory,
                check=False,
            )
        answer = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return f"its code did not end within {limit_s:g} s"
    except (LookupError, ValueError):
        last = next(reversed(done.stderr.splitlines()), f"status {done.returncode}")
        return f"its code cannot be run here: {last[:_SHOWN]}"
    return answer if isinstance(answer, dict) else f"its code cannot be run here: it printed {answer!r}"[:_SHOWN]


def answer_once(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The program: tell the answer as one line of JSON, the last one, because the code may print; then end."""
    told = json.load(sys.stdin)
    sys.path.insert(0, told["source"])
    print("\n" + json.dumps(answer(told)), flush=True)
    # Threads of the code are not waited for.
    os._exit(0)
