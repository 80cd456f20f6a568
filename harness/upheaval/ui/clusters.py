"""Clusters that the page starts: as `upheaval up` makes them, and with proxies in their links, so that these break too.

The proxies are in this process, so such a cluster ends with it; should it be killed, the next harness ends its members.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from upheaval.errors import UsageError
from upheaval.execution.links import open_links, require_link_images
from upheaval.records import service_folder
from upheaval.runtime_names import LIVE_RUNTIMES, PROCESS
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.opening import create_cluster
from upheaval.system import CLUSTER_OF_THREE, ClusterSpec, system_named
from upheaval.ui.fields import chosen, text, truth, whole
from upheaval_chaos.target import Means

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_START_TIMEOUT_S: Final = 120.0
_SEED: Final = 1
"""Of what the proxies draw."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A cluster that is wished for: the name of its folder, and what it is to be."""

    name: str
    runtime: str
    spec: ClusterSpec
    has_links: bool


def plan_of(fields: Mapping[str, Any]) -> ClusterPlan:
    """Of a request; what it leaves out is as of `upheaval up`. Raises `UsageError` for what makes no sense."""
    name = text(fields, "name")
    if not _NAME.fullmatch(name):
        raise UsageError(f"name: expected 1 to 64 letters, digits, dots, dashes and underscores, got {name!r}")
    service = text(fields, "service", CLUSTER_OF_THREE.service)
    system = system_named(text(fields, "system", CLUSTER_OF_THREE.system)).text
    spec = ClusterSpec(
        members=whole(fields, "members", CLUSTER_OF_THREE.members),
        service=service,
        source=str(service_folder(service, Path.cwd(), system)) if ":" in service else "",
        system=system,
    )
    runtime = chosen(fields, "runtime", LIVE_RUNTIMES, PROCESS)
    return ClusterPlan(name, runtime, spec, truth(fields, "links", default=True))


def start_cluster(folder: Path, plan: ClusterPlan) -> AnyCluster:
    """In a new folder in that one; returns when a leader serves. Raises `HarnessError` for one that does not start."""
    path = folder / plan.name
    if plan.has_links:
        require_link_images(plan.runtime, Means.PROXY, system_named(plan.spec.system))
    try:
        # One of two requests that come together makes it.
        path.mkdir()
    except FileExistsError:
        raise UsageError(f"{plan.name} exists: choose another name") from None
    try:
        cluster = create_cluster(plan.runtime, path, plan.spec)
    except BaseException:
        with suppress(OSError):
            path.rmdir()
        raise
    try:
        if plan.has_links:
            open_links(cluster, _SEED)
        cluster.up(_START_TIMEOUT_S)
    except BaseException:
        cluster.close()
        raise
    return cluster
