"""A load on a cluster: what the process of the users needs to know of it, and what the run keeps of the load."""

import random
import socket
from dataclasses import dataclass, replace
from typing import Final

from upheaval.load.settings import SHORT_NAMES, LoadSettings
from upheaval.records import Json
from upheaval.runtimes.live import AnyCluster
from upheaval.security import CLIENT, policy as security
from upheaval.system import ClusterSpec
from upheaval.workload import WORKBENCH_SERVICE
from upheaval_node.settings import profile_settings

LOG_FILE: Final = "load.log"
"""In the run folder: what the users print."""
_ID_BITS: Final = 58


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The load that is wished for: `users`, each with `rate` operations a second, 0 for no limit.

    `user` is a class of users, None for that of the cluster's service. `duration_s` is None for a load that is ended
    by hand.
    """

    users: int = 10
    rate: float = 10.0
    duration_s: float | None = None
    user: str | None = None
    timeout_s: float = 5.0
    seed: int = 1
    credentials_file: str = ""


def sessions_max(spec: ClusterSpec) -> int:
    """How many sessions its members let in."""
    return spec.max_sessions or profile_settings(spec.profile).cluster.max_sessions


def settings_of(cluster: AnyCluster, plan: LoadPlan, page: socket.socket | None = None) -> LoadSettings:
    """Of a load on this cluster; `page` is the socket of locust's page."""
    way = cluster.way_in()
    return LoadSettings(
        endpoints=",".join(f"{member}={endpoint}" for member, endpoint in way.endpoints.items()),
        addresses=way.dialled,
        history=str(cluster.run.history_file),
        users=plan.users,
        duration_s=plan.duration_s,
        user=_user(cluster, plan.user),
        rate=plan.rate,
        spawn_rate=max(plan.users / 2, 1),
        timeout_s=plan.timeout_s,
        seed=plan.seed,
        # Far from what other loads of the same run draw.
        first_id=1 << _ID_BITS | random.SystemRandom().getrandbits(_ID_BITS),
        page=None if page is None else page.fileno(),
        tls=security.fields_of(cluster.config.tls, CLIENT),
        credentials_file=plan.credentials_file,
        system=cluster.config.system,
        run_id=cluster.config.run_id,
        host=way.host,
        client=way.client,
    )


def write_workload(cluster: AnyCluster, settings: LoadSettings) -> None:
    """Into the manifest. A load goes on with a run: a position at which it converged before is its last no more."""
    workload: dict[str, Json] = {
        "users": settings.users,
        "user": settings.user,
        "rate": settings.rate,
        "duration_s": settings.duration_s,
    }
    manifest = replace(cluster.run.read_manifest(), seed=settings.seed, workload={"locust": workload}, converge=None)
    cluster.run.write_manifest(manifest)


def _user(cluster: AnyCluster, wanted: str | None) -> str:
    """The one of the cluster's service, unless another one is wanted."""
    if wanted is None:
        wanted = cluster.config.service if cluster.config.service in SHORT_NAMES else WORKBENCH_SERVICE
    return SHORT_NAMES.get(wanted, wanted)
