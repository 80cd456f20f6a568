"""A cluster that does not start, as the stage of a scenario."""

import json
from collections.abc import Callable
from pathlib import Path

from upheaval.errors import EnvironmentFault, HarnessError
from upheaval.execution.stage import Steered
from upheaval.records import Json, Manifest, RunFolder
from upheaval.workload import LoadCounts
from upheaval_chaos.record import FaultRecord

S = 10**9


def line(second: int, event: str, **fields: Json) -> dict[str, Json]:
    return {"ts": second * S, "epoch_ms": second * 1000, "event": event, "component": "all", **fields}


START = line(1, "process-start")
ELECTION = line(2, "election_state", old="INIT", state="INIT")


def end(status: int) -> dict[str, Json]:
    return line(3, "process-end", status=status)


class Unstarted:
    """A stage whose cluster does not start, with the trace of its member. Implements `Stage`."""

    def __init__(self, folder: Path, trace: list[dict[str, Json]], error: HarnessError) -> None:
        self.run = RunFolder(folder)
        self._trace = trace
        self._error = error
        self.is_closed = False

    @property
    def target(self) -> Steered:
        raise AssertionError("nothing started")

    def open(self, say: Callable[[str], None]) -> None:
        self.run.create(Manifest("run-1", "process", 1, "test", 0))
        member = self.run.member(0)
        member.path.mkdir()
        member.trace.write_text("".join(json.dumps(each) + "\n" for each in self._trace))
        raise self._error

    def record_fault(self, fault: FaultRecord) -> None: ...

    def end_load(self) -> LoadCounts:
        raise AssertionError("nothing started")

    def close(self) -> None:
        self.is_closed = True

    def digest(self) -> None: ...


ENDED = EnvironmentFault("member 0 ended with status 7: no leader for me")
