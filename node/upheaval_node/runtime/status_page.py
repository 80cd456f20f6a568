"""The HTTP endpoint of a member: `/metrics` for Prometheus, `/health` for whoever has to know whether it lives.

It belongs to the process that hosts the media driver and answers from the counters, which all processes of the member
share. Knows no component.
"""

import json
import os
from http import HTTPStatus

from upheaval_node.counters import Counters
from upheaval_node.errors import NetworkError
from upheaval_node.files.cnc import CncHeader
from upheaval_node.runtime import metrics
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

    def show_metrics() -> Response:
        text = metrics.render(counters, member_id=member_id, start_ms=header.start_timestamp_ms)
        return Response(HTTPStatus.OK, metrics.CONTENT_TYPE, text)

    def show_health() -> Response:
        health = health_of(counters, header.pid) if is_complete(os.curdir) else {"alive": False}
        status = HTTPStatus.OK if is_healthy(health) else HTTPStatus.SERVICE_UNAVAILABLE
        return Response(status, JSON, json.dumps(health).encode() + b"\n")

    try:
        return HttpEndpoint(network, address, {"/metrics": show_metrics, "/health": show_health})
    except NetworkError as error:
        raise NetworkError(f"metrics endpoint: {error}") from error
