"""The HTTP endpoint of a member: `/metrics` for Prometheus, `/health` for monitors that ask whether it lives.

It belongs to the process that hosts the media driver and answers from the counters, which all processes of the member
share. Knows no component.
"""

import json
import os
from collections.abc import Callable, Mapping
from http import HTTPStatus

from upheaval_node.counters import Counters
from upheaval_node.errors import NetworkError
from upheaval_node.files.cnc import CncHeader
from upheaval_node.runtime import backup_health, metrics
from upheaval_node.runtime.health import health_of, is_complete, is_healthy
from upheaval_node.runtime.http_endpoint import HttpEndpoint, Response
from upheaval_node.runtime.network import SelectorNetwork

JSON = "application/json"


def open_status_page(
    network: SelectorNetwork, address: str, counters: Counters, header: CncHeader, member_id: int
) -> HttpEndpoint:
    """Serve the counters of the member whose folder is the working directory.

    Raises `NetworkError` when the address cannot be used.
    """

    def health() -> tuple[Mapping[str, object], bool]:
        report = health_of(counters, header.pid) if is_complete(os.curdir) else {"alive": False}
        return report, is_healthy(report)

    return _open(network, address, counters, header, member_id, health)


def open_backup_page(
    network: SelectorNetwork, address: str, counters: Counters, header: CncHeader, name: str
) -> HttpEndpoint:
    """The same for a backup: it is healthy when its agent publishes a state."""

    def health() -> tuple[Mapping[str, object], bool]:
        report = backup_health.read_backup_health(os.curdir)
        return report, is_healthy(report, "state")

    return _open(network, address, counters, header, name, health)


def _open(
    network: SelectorNetwork,
    address: str,
    counters: Counters,
    header: CncHeader,
    name: int | str,
    health: Callable[[], tuple[Mapping[str, object], bool]],
) -> HttpEndpoint:
    def show_metrics() -> Response:
        text = metrics.render(counters, member_id=name, start_ms=header.start_timestamp_ms)
        return Response(HTTPStatus.OK, metrics.CONTENT_TYPE, text)

    def show_health() -> Response:
        report, is_well = health()
        status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
        return Response(status, JSON, json.dumps(report).encode() + b"\n")

    try:
        return HttpEndpoint(network, address, {"/metrics": show_metrics, "/health": show_health})
    except NetworkError as error:
        raise NetworkError(f"metrics endpoint: {error}") from error
