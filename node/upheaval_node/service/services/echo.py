"""The echo service: the answer is the value of the request. It has no state."""

from upheaval_node.service.services.encoding import Operation, Request, Response
from upheaval_node.service.services.operations import OperationService, accepted


def echo(request: Request, position: int) -> Response:
    return accepted(request, position, request.value)


class Echo(OperationService):
    """ECHO: gives back the value."""

    def __init__(self) -> None:
        super().__init__({Operation.ECHO: echo})
