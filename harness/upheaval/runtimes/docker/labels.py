"""Ownership in an engine: labels on containers, networks and volumes, and the removal of everything without a live
owner.

A killed harness removes nothing. Its labels identify its process, so that the next start removes its leftovers but
nothing of a live harness (see `owner`). This module knows nothing of members.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from upheaval.errors import EnvironmentFault, UnknownOutcome
from upheaval.runtimes.docker.engine import Client, engine_errors
from upheaval.runtimes.owner import Owner
from upheaval.waits import wait_until

RUN_ID: Final = "upheaval.run-id"
MEMBER: Final = "upheaval.member"
COMPONENT: Final = "upheaval.component"
_PID: Final = "upheaval.harness-pid"
_START: Final = "upheaval.harness-start"
_PLACE: Final = "upheaval.harness-place"
_KEPT: Final = "upheaval.kept"
_IN_USE_S: Final = 30.0
_POLL_S: Final = 0.1


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


def abandoned(client: Client) -> list[str]:
    """The leftovers of killed harnesses: kind and name of each."""
    with engine_errors("looking for what killed harnesses left in the engine"):
        return [
            f"{resource.kind} {resource.name}"
            for resource in _resources(client, RUN_ID)
            if is_abandoned(resource.labels)
        ]


def is_there(client: Client, run_id: str) -> bool:
    """Whether the engine has anything of a run, running or not."""
    with engine_errors("looking for what a run has in the engine"):
        return any(True for _ in _resources(client, f"{RUN_ID}={run_id}"))


def remove_abandoned(client: Client) -> int:
    """Remove the leftovers of killed harnesses. Returns how many things were removed."""
    return _remove(client, RUN_ID, is_wanted=is_abandoned)


def remove_run(client: Client, run_id: str) -> int:
    """Remove everything of one run, whichever process created it. Returns how many things were removed."""
    return _remove(client, f"{RUN_ID}={run_id}", is_wanted=lambda _: True)


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


def _remove(client: Client, label: str, *, is_wanted: Callable[[Mapping[str, str]], bool]) -> int:
    count = 0
    with engine_errors("removing what a run left in the engine"):
        for resource in _resources(client, label):
            if is_wanted(resource.labels):
                count += _is_removed(resource)
    return count


def _is_removed(resource: _Resource) -> bool:
    """Whether this process removed it: another one may have done so, or be doing it.

    While that one removes a container, its network and volumes are in use. Raises `EnvironmentFault` if they stay so.
    """
    import docker

    reason = ""

    def outcome() -> str | None:
        nonlocal reason
        try:
            resource.remove()
        except docker.errors.APIError as error:
            if error.status_code == 404 or (error.status_code == 409 and "in progress" in str(error)):
                return "by another"
            if resource.kind == "container" or error.status_code not in (403, 409):
                raise
            reason = str(error.explanation)
            return None
        return "here"

    try:
        return wait_until(outcome, timeout_s=_IN_USE_S, describe=lambda: reason, interval_s=_POLL_S) == "here"
    except UnknownOutcome as error:
        raise EnvironmentFault(f"cannot remove {resource.kind} {resource.name}: {error}") from error
