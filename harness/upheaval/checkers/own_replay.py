"""Whether the state of a user's service is what its log gives, and whether its snapshot is all of its state.

The service's code runs in a process of its own, `replay_process`, under other conditions than members have. Where it
cannot be run, or was changed since the run, nothing is found out, and why.
"""

import json
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from upheaval.checkers import replay_conditions
from upheaval.checkers.causes import CONDITIONS, EXTERNAL, Cause
from upheaval.checkers.replay_process import Order
from upheaval.records import Manifest, RunFolder, read_origin, source_digest

TIMEOUT_S: Final = 60.0
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class OwnReplay:
    """State hashes by position, and what an instance that began with a snapshot does otherwise."""

    hashes: dict[int, str] = field(default_factory=dict)
    difference: str = ""
    position: int = -1
    """Of the snapshot that the instance began with."""
    changed: tuple[Cause, ...] = ()
    """What the replay had otherwise than members."""
    why_usual: str = ""
    """Why it had the usual environment and directory; empty when it had others."""
    why_not: str = ""
    """Why nothing was found out; empty when it was."""


def replay_own(run: RunFolder, manifest: Manifest, log_member: int, log_end: int) -> OwnReplay:
    """Of a service of a user's own; raises nothing that its code is to blame for."""
    why_not = why_no_service(run, manifest)
    if why_not:
        return OwnReplay(why_not=why_not)
    source, folder = Path(manifest.source).absolute(), run.path.absolute()
    order = Order(manifest.service, str(source), str(folder), log_member, log_end, CONDITIONS)
    found = _ask(order)
    if not found.why_not:
        return found
    usual = _ask(replace(order, changed=tuple(each for each in CONDITIONS if each not in EXTERNAL)))
    return usual if usual.why_not else replace(usual, why_usual=found.why_not)


def _ask(order: Order) -> OwnReplay:
    changed = tuple(Cause(each) for each in order.changed)
    try:
        done = _run(order, changed)
        told = json.loads(done.stdout.splitlines()[-1])
        hashes = {int(position): each for position, each in told["hashes"].items()}
        return OwnReplay(hashes, told["difference"], told["position"], changed)
    except subprocess.TimeoutExpired:
        return OwnReplay(why_not=f"its code did not end within {TIMEOUT_S:g} s")
    except (LookupError, ValueError):
        last = next(reversed(done.stderr.splitlines()), f"status {done.returncode}")
        return OwnReplay(why_not=f"its code cannot be run here: {last[:_SHOWN]}")


def _run(order: Order, changed: Collection[Cause]) -> subprocess.CompletedProcess[str]:
    with replay_conditions.directory(changed) as directory:
        return subprocess.run(
            [sys.executable, "-m", "upheaval.checkers.replay_process", order.to_json()],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=replay_conditions.environment(changed),
            cwd=directory,
            check=False,
        )


def why_no_service(run: RunFolder, manifest: Manifest) -> str:
    """Why the service cannot be made to read its log here; empty when it can."""
    if not manifest.source or not Path(manifest.source).is_dir():
        return "its code is not at hand"
    if read_origin(run.path) is not None:
        return "the log goes on from a state that it does not have"
    if not manifest.source_digest:
        return "the manifest has no digest of its code"
    if source_digest(manifest.source, manifest.service) != manifest.source_digest:
        return "its code was changed since the run"
    return ""
