"""What locust loads in the load image: users of the cluster that the environment names.

| variable | meaning |
|---|---|
| `UPHEAVAL_ENDPOINTS` | the members' ingress, `0=member-0:9001,1=member-1:9001` |
| `UPHEAVAL_BRIDGE` | where a bridge to members of Aeron listens, `127.0.0.1:9100`; without it they are our node's |
| `UPHEAVAL_USER` | `workbench` (default), `register`, `append`, `echo`, or `module:Class` |
| `UPHEAVAL_RATE` | operations a second of each user (default 10; 0: as fast as the answers come) |
| `UPHEAVAL_TIMEOUT` | seconds that an operation may take (default 5) |
| `UPHEAVAL_HISTORY` | the history (default `/tmp/history.jsonl`); `sessions.jsonl` and `strays.jsonl` go beside it |
"""

import os
import time
from pathlib import Path

import gevent
from locust import events

from upheaval.load.settings import LoadSettings
from upheaval.load.users import LoadContext, find_user
from upheaval.records import OWN_SYSTEM, HistoryWriter, RunFolder

# Each start of locust has operation ids of its own, so that one cluster may be driven more than once.
_IDS_A_MILLISECOND = 1 << 20
_LOOK_S = 0.01

BRIDGE = os.environ.get("UPHEAVAL_BRIDGE", "")

settings = LoadSettings(
    endpoints=os.environ["UPHEAVAL_ENDPOINTS"],
    history=os.environ.get("UPHEAVAL_HISTORY", "/tmp/history.jsonl"),
    users=0,
    duration_s=None,
    rate=float(os.environ.get("UPHEAVAL_RATE", "10")),
    timeout_s=float(os.environ.get("UPHEAVAL_TIMEOUT", "5")),
    system="aeron" if BRIDGE else OWN_SYSTEM,
    bridge=BRIDGE,
    first_id=time.time_ns() // 1_000_000 * _IDS_A_MILLISECOND,
)
run = RunFolder(Path(settings.history).parent)
context = LoadContext(settings, HistoryWriter(Path(settings.history)).add, run.add_session_end, run.add_stray)
chosen = find_user(os.environ.get("UPHEAVAL_USER", "workbench"))
chosen.context_of_load = context


@events.test_start.add_listener
def _begin(**_: object) -> None:
    context.is_over = False


@events.test_stopping.add_listener
def _finish(**_: object) -> None:
    """Before locust ends the users: none begins another operation, and those under way get their outcome."""
    context.is_over = True
    with gevent.Timeout(2 * settings.timeout_s, False):
        while context.in_flight:
            gevent.sleep(_LOOK_S)
