"""Whether the state of a user's service is what its log gives, and whether its snapshot is all of its state.

The service's code runs in a process of its own, with another hash seed than members have: `python -m
upheaval.checkers.own_replay`. It reads the whole log and tells the state at each snapshot that the log asks for. Then
an instance that begins with the last of these snapshots reads the rest of the log, and both are given requests of the
log once more: what a snapshot forgets shows in the answers. Another instance that reads the whole log must answer as
the first one does, or answers say nothing. Where the code cannot be run, or was changed since the run, nothing is found
out, and why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from upheaval.checkers.own_process import answer_once, ask_own_code
from upheaval.checkers.recordings import RecordedLog
from upheaval.checkers.replay import ExpectedState, LoggedMessage, Replay, is_request, state_hash
from upheaval.records import Manifest, RunFolder, read_origin

PROBES: Final = 200
"""So many of the last messages of clients are given once more."""
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
    why_not = why_no_service(run, manifest)
    if why_not:
        return OwnReplay(why_not=why_not)
    told = ask_own_code(
        __name__,
        {
            "service": manifest.service,
            "source": manifest.source,
            "run": str(run.path.absolute()),
            "member": log_member,
            "end": log_end,
        },
    )
    if isinstance(told, str):
        return OwnReplay(why_not=told)
    hashes = {int(position): each for position, each in told["hashes"].items()}
    return OwnReplay(hashes, told["difference"], told["position"])


def why_no_service(run: RunFolder, manifest: Manifest) -> str:
    """Why the service cannot be made to read its log here; empty when it can."""
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


def read_log(told: Mapping[str, Any]) -> list[LoggedMessage]:
    """The log that a process was told to read."""
    messages = (LoggedMessage(*each) for each in RecordedLog(RunFolder(told["run"]).member(told["member"])).messages())
    return [message for message in messages if message.position <= told["end"]]


if __name__ == "__main__":
    answer_once(lambda told: _tell(told["service"], read_log(told)))
