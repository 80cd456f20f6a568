"""Whether the state of a user's service is what its log gives, and whether its snapshot is all of its state.

The service's code runs in a process of its own, with another hash seed than members have: `python -m
upheaval.checkers.own_replay`. It reads the whole log and tells the state at each snapshot that the log asks for. Then
an instance that begins with the last of these snapshots reads the rest of the log, and both are given requests of the
log once more: what a snapshot forgets shows in the answers. Another instance that reads the whole log must answer as
the first one does, or answers say nothing. Where the code cannot be run, or was changed since the run, nothing is found
out, and why.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from upheaval.checkers.recordings import RecordedLog
from upheaval.checkers.replay import ExpectedState, LoggedMessage, Replay, is_request, state_hash
from upheaval.records import Manifest, RunFolder, read_origin

TIMEOUT_S: Final = 60.0
PROBES: Final = 200
"""So many of the last messages of clients are given once more."""
_HASH_SEED: Final = "4711"
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class OwnReplay:
    """State hashes by position, and what an instance that began with a snapshot does otherwise."""

    hashes: dict[int, str] = field(default_factory=dict)
    difference: str = ""
    position: int = -1
    """Of the snapshot that the instance began with."""
    why_not: str = ""
    """Why nothing was found out; empty when it was."""


def replay_own(run: RunFolder, manifest: Manifest, log_member: int, log_end: int) -> OwnReplay:
    """Of a service of a user's own; raises nothing that its code is to blame for."""
    why_not = _why_not(run, manifest)
    if why_not:
        return OwnReplay(why_not=why_not)
    arguments = [manifest.service, manifest.source, str(run.path.absolute()), str(log_member), str(log_end)]
    # What is loaded here must be found there, too.
    environment = {**os.environ, "PYTHONHASHSEED": _HASH_SEED, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__, *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=environment,
            check=False,
        )
        told = json.loads(done.stdout.splitlines()[-1])
        hashes = {int(position): each for position, each in told["hashes"].items()}
        return OwnReplay(hashes, told["difference"], told["position"])
    except subprocess.TimeoutExpired:
        return OwnReplay(why_not=f"its code did not end within {TIMEOUT_S:g} s")
    except (LookupError, ValueError):
        last = next(reversed(done.stderr.splitlines()), f"status {done.returncode}")
        return OwnReplay(why_not=f"its code cannot be run here: {last[:_SHOWN]}")


def _why_not(run: RunFolder, manifest: Manifest) -> str:
    source = Path(manifest.source)
    if not manifest.source or not source.is_dir():
        return "its code is not at hand"
    if read_origin(run.path) is not None:
        return "the log goes on from a state that it does not have"
    package = manifest.service.partition(":")[0].partition(".")[0]
    files = [source / f"{package}.py", *(source / package).rglob("*.py")]
    made_s = run.manifest_file.stat().st_mtime
    if any(path.is_file() and path.stat().st_mtime > made_s for path in files):
        return "its code was changed since the run"
    return ""


# --- in the process of its own ---


def _tell(service: str, log: Sequence[LoggedMessage]) -> dict[str, object]:
    whole, states = _replayed(service, log)
    told: dict[str, object] = {
        "hashes": {state.position: state_hash(state.messages) for state in states},
        "difference": "",
        "position": -1,
    }
    if states:
        told["position"] = states[-1].position
        told["difference"] = _forgotten(service, log, whole, states[-1])
    return told


def _forgotten(service: str, log: Sequence[LoggedMessage], whole: Replay, state: ExpectedState) -> str:
    """What an instance does otherwise that begins with that state; empty when nothing is seen."""
    try:
        begun = Replay(service, state, is_own=True)
    except Exception as error:  # noqa: BLE001 - whatever the service's code raises
        return f"raises {type(error).__name__}: {error}"[:_SHOWN]
    for message in log:
        if message.position > state.position:
            begun.apply(message)
    requests = [message for message in log if is_request(message)][-PROBES:]
    control = _replayed(service, log)[0]
    answers, others, repeated = ([each.probe(request) for request in requests] for each in (whole, begun, control))
    ends = [each.state().messages for each in (whole, begun, control)]
    if (answers, ends[0]) != (repeated, ends[2]):
        return ""
    return _difference(answers, others) or ("" if ends[0] == ends[1] else "writes another snapshot at the end")


def _replayed(service: str, log: Sequence[LoggedMessage]) -> tuple[Replay, list[ExpectedState]]:
    replay = Replay(service, is_own=True)
    return replay, [replay.state() for message in log if replay.apply(message)]


def _difference(answers: Sequence[Sequence[bytes]], others: Sequence[Sequence[bytes]]) -> str:
    for one, other in zip(answers, others, strict=True):
        if one != other:
            return f"answers {_shown(other)} where one that read the whole log answers {_shown(one)}"
    return ""


def _shown(answer: Sequence[bytes]) -> str:
    return repr(b" ".join(answer).decode("utf-8", "backslashreplace")[: _SHOWN // 2]) if answer else "nothing"


def main() -> None:
    """Tell it as one line of JSON, the last one: the service may print."""
    service, source, run, member, end = sys.argv[1:]
    sys.path.insert(0, source)
    messages = (LoggedMessage(*each) for each in RecordedLog(RunFolder(run).member(int(member))).messages())
    log = [message for message in messages if message.position <= int(end)]
    print("\n" + json.dumps(_tell(service, log)), flush=True)
    # Threads of the service are not waited for.
    os._exit(0)


if __name__ == "__main__":
    main()
