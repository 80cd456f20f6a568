"""Ownership in an engine: labels on containers, networks and volumes, and the removal of everything without a live
owner.

A killed harness removes nothing. Its labels identify its process, so that the next start removes its leftovers but
nothing of a live harness (see `owner`). This module knows nothing of members.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from upheaval.errors import UnknownOutcome
from upheaval.runtimes.docker.engine import Client, engine_errors
from upheaval.runtimes.docker.node import POLL_INTERVAL_S
from upheaval.runtimes.owner import Owner
from upheaval.waits import wait_until

RUN_ID: Final = "upheaval.run-id"
MEMBER: Final = "upheaval.member"
COMPONENT: Final = "upheaval.component"
_PID: Final = "upheaval.harness-pid"
_START: Final = "upheaval.harness-start"
_PLACE: Final = "upheaval.harness-place"
_KEPT: Final = "upheaval.kept"
_REMOVING: Final = "removing what a run left in the engine"
REMOVAL_TIMEOUT_S: Final = 30.0
"""How long another process may take to remove a container, and with it the use of its networks and volumes."""
START_TIMEOUT_S: Final = 10.0
"""How long a start, which needs none of it, waits for what others are removing."""
_BUSY: Final = ("in progress", "in use", "active endpoints")
"""In the engine's reasons why a container, a volume and a network cannot be removed yet."""


def labels_of_run(run_id: str, *, detached: bool) -> dict[str, str]:
    """The labels of everything that this process creates for a run. `detached`: it may outlive this process."""
    me = Owner.me()
    labels = {RUN_ID: run_id, _PID: me.pid, _START: me.start, _PLACE: me.place}
    return labels | ({_KEPT: "true"} if detached else {})


def is_abandoned(labels: Mapping[str, str]) -> bool:
    """Whether the harness that created this is certainly gone, and did not mark it as kept."""
    if RUN_ID not in labels or _KEPT in labels:
        return False
    return Owner(labels.get(_PID, ""), labels.get(_START, ""), labels.get(_PLACE, "")).is_gone


@dataclass(frozen=True, slots=True)
class Removal:
    """One leftover: container, network or volume, and why it is still there; that is empty if it was removed."""

    kind: str
    name: str
    why: str = ""


def abandoned(client: Client) -> list[tuple[str, str]]:
    """The leftovers of killed harnesses: kind and name of each."""
    with engine_errors("looking for what killed harnesses left in the engine"):
        return [
            (resource.kind, resource.name) for resource in _resources(client, RUN_ID) if is_abandoned(resource.labels)
        ]


def is_there(client: Client, run_id: str) -> bool:
    """Whether the engine has anything of a run, running or not."""
    with engine_errors("looking for what a run has in the engine"):
        return any(True for _ in _resources(client, f"{RUN_ID}={run_id}"))


def remove_abandoned(client: Client, timeout_s: float = REMOVAL_TIMEOUT_S) -> list[Removal]:
    """Remove the leftovers of killed harnesses. Returns those that this call removed, and those that it could not.

    All of them share the time-out. What is in use for longer, or what the engine keeps, is left to the next call.
    """
    import docker

    deadline = time.monotonic() + timeout_s
    removals = []
    with engine_errors(_REMOVING):
        for resource in _resources(client, RUN_ID):
            if not is_abandoned(resource.labels):
                continue
            why = ""
            try:
                if not _remove(resource, max(deadline - time.monotonic(), 0.0)):
                    continue
            except (UnknownOutcome, docker.errors.APIError) as error:
                why = " ".join(str(error).split())
            removals.append(Removal(resource.kind, resource.name, why))
    return removals


def remove_run(client: Client, run_id: str, timeout_s: float = REMOVAL_TIMEOUT_S) -> int:
    """Remove everything of one run, whichever process created it. Returns how many things were removed.

    Raises `UnknownOutcome` for what is in use for longer.
    """
    with engine_errors(_REMOVING):
        return sum(_remove(resource, timeout_s) for resource in _resources(client, f"{RUN_ID}={run_id}"))


@dataclass(frozen=True, slots=True)
class _Resource:
    kind: str
    name: str
    labels: Mapping[str, str]
    remove: Callable[[], None]


def _resources(client: Client, label: str) -> Iterator[_Resource]:
    """Everything with the label, containers first: networks and volumes in use cannot be removed."""
    api, filters = client.api, {"label": label}
    for container in api.containers(all=True, filters=filters):
        name = (container["Names"] or [container["Id"]])[0].removeprefix("/")
        remove = partial(api.remove_container, container["Id"], force=True, v=True)
        yield _Resource("container", name, container["Labels"] or {}, remove)
    for network in api.networks(filters=filters):
        yield _Resource("network", network["Name"], network["Labels"] or {}, partial(api.remove_network, network["Id"]))
    for volume in api.volumes(filters=filters)["Volumes"] or ():
        remove = partial(api.remove_volume, volume["Name"], force=True)
        yield _Resource("volume", volume["Name"], volume["Labels"] or {}, remove)


def _remove(resource: _Resource, timeout_s: float) -> bool:
    """Remove it as soon as nothing uses it. False if another process removed it."""
    import docker

    why = ""

    def outcome() -> tuple[bool] | None:
        nonlocal why
        try:
            resource.remove()
        except docker.errors.NotFound:
            return (False,)
        except docker.errors.APIError as error:
            why = str(error.explanation)
            if not any(reason in why for reason in _BUSY):
                raise
            return None
        return (True,)

    (is_removed,) = wait_until(
        outcome,
        timeout_s=timeout_s,
        interval_s=POLL_INTERVAL_S,
        describe=lambda: f"removing {resource.kind} {resource.name}: {why}",
    )
    return is_removed
