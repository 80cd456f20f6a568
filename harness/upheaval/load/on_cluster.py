"""A load on a cluster: what the users' process needs to know of the cluster, and what the run records of the load."""

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
"""The output of the users' process, in the run folder."""
_ID_BITS: Final = 58


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The requested load: `users`, each with `rate` operations per second, 0 for no limit.

    `user` is a class of users, None for the class of the cluster's service. `duration_s` is None for a load that is
    ended by hand.
    """

    users: int = 10
    rate: float = 10.0
    duration_s: float | None = None
    user: str | None = None
    timeout_s: float = 5.0
    seed: int = 1
    credentials_file: str = ""


def sessions_max(spec: ClusterSpec) -> int:
    """The maximum number of sessions that the members admit."""
    return spec.max_sessions or profile_settings(spec.profile).cluster.max_sessions


def settings_of(cluster: AnyCluster, plan: LoadPlan, page: socket.socket | None = None) -> LoadSettings:
    """The settings of a load on this cluster; `page` is the socket of locust's page."""
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
        # Random, so that the ids of other loads of the same run are far away.
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
    """Write the load into the manifest. Since the load continues the run, an earlier `converge` is removed."""
    workload: dict[str, Json] = {
        "users": settings.users,
        "user": settings.user,
        "rate": settings.rate,
        "duration_s": settings.duration_s,
    }
    cluster.run.change_manifest(
        lambda manifest: replace(manifest, seed=settings.seed, workload={"locust": workload}, converge=None)
    )


def _user(cluster: AnyCluster, wanted: str | None) -> str:
    """The class of users that is wanted, by default the one for the cluster's service."""
    if wanted is None:
        wanted = cluster.config.service if cluster.config.service in SHORT_NAMES else WORKBENCH_SERVICE
    return SHORT_NAMES.get(wanted, wanted)
