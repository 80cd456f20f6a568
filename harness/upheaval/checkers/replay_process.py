"""The process in which the code of a user's service reads a log: `python -m upheaval.checkers.replay_process ORDER`.

It runs under the conditions that its order asks for, reads the whole log, and tells the state at each snapshot that the
log asks for. Then an instance that begins with the last of these snapshots reads the rest of the log, and both are
given requests of the log once more: what a snapshot forgets shows in the answers. Another instance that reads the whole
log must answer as the first one does, or answers say nothing.
"""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from upheaval.checkers import replay_conditions
from upheaval.checkers.causes import Cause
from upheaval.checkers.recordings import RecordedLog
from upheaval.checkers.replay import ExpectedState, LoggedMessage, Replay, is_request, state_hash
from upheaval.records import RunFolder

PROBES: Final = 200
"""So many of the last messages of clients are given once more."""
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Order:
    """What to replay: the log of `member` up to `end`, by `service` of the folder `source`, and what is changed."""

    service: str
    source: str
    run: str
    member: int
    end: int
    changed: tuple[str, ...]

    def to_json(self) -> str:
        """As the argument of the process."""
        return json.dumps(asdict(self))


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


def read_log(run: str, member: int, end: int) -> list[LoggedMessage]:
    """The log of a member up to there."""
    messages = (LoggedMessage(*each) for each in RecordedLog(RunFolder(run).member(member)).messages())
    return [message for message in messages if message.position <= end]


def main() -> None:
    """Tell it as one line of JSON, the last one: the service may print."""
    order = Order(**json.loads(sys.argv[1]))
    log = read_log(order.run, order.member, order.end)
    sys.path.insert(0, order.source)
    kept = replay_conditions.enter([Cause(each) for each in order.changed])
    print("\n" + json.dumps(_tell(order.service, log)), flush=True)
    del kept
    # Threads of the service are not waited for.
    os._exit(0)


if __name__ == "__main__":
    main()
