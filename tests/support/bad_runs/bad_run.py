"""One bad run as a value, and the good runs that they are made of, each made once a session."""

import atexit
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from support.flows import SERVICE, SOURCE
from support.flows_standby import snapshots_under_load
from support.valid import require_valid
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.execution.run import run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.scenario import load_scenario
from upheaval.testing.cluster import Cluster

STANDBY_RUN = "standby"
"""No scenario: a standby takes a snapshot for the members, who fetch it, and is stopped while the cluster goes on."""

CALLS_RUN = "calls"
"""No scenario: two clients of the bank ask, none does for `QUIET_S`, and they ask again."""
QUIET_S = 8


@dataclass(frozen=True)
class BadRun:
    """The run of a scenario, on the simulated runtime, that `damage` was done to."""

    scenario: str
    damage: Callable[[Path], None]
    promise: Promise
    says: tuple[str, ...]
    """What the finding must name: the file, the member, the position."""
    verdict: Verdict = Verdict.INVALID

    @property
    def name(self) -> str:
        """As pytest shows it."""
        return f"{self.damage.__name__}-{self.scenario}"


def copy_of_good_run(scenario: str, folder: Path) -> None:
    """Put the folder of a valid run there."""
    shutil.copytree(_good_run(scenario), folder, dirs_exist_ok=True)


@cache
def _good_run(name: str) -> Path:
    folder = Path(mkdtemp(prefix=f"good-{name}-"))
    atexit.register(shutil.rmtree, folder)
    if name == STANDBY_RUN:
        with Cluster(runtime="simulated", folder=folder, seed=1) as cluster:
            snapshots_under_load(cluster, deaths=False)
            require_valid(cluster.verify())
        return folder
    if name == CALLS_RUN:
        with Cluster(SERVICE, SOURCE, runtime="simulated", folder=folder, seed=1) as cluster:
            _ask_twice(cluster)
            require_valid(cluster.verify())
        return folder
    scenario = load_scenario(name)
    stage = SimulatedStage(scenario, 1, folder)
    result = run_scenario(scenario, stage, runtime="simulated", seed=1, say=lambda _: None)
    require_valid(result.report)
    return folder


def _ask_twice(cluster: Cluster) -> None:
    """Of the bank, with a quiet time between."""
    clients = cluster.client(), cluster.client()
    for number in range(80):
        deposits = [b'{"id": "%d", "do": "deposit", "to": "ann", "amount": 1}' % (2 * number + one) for one in (0, 1)]
        cluster.together(*zip(clients, deposits, strict=True))
        if number == 39:
            clients[0].wait(QUIET_S)
