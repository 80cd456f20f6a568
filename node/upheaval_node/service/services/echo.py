"""The echo service, which answers with the value of the request. It has no state."""

from upheaval_node.derivable import mypyc_attr
from upheaval_node.service.api import ClientSession
from upheaval_node.service.services.encoding import Operation, Request, Response, echo_response
from upheaval_node.service.services.operations import OperationService, accepted


def echo(request: Request, position: int) -> Response:
    """Answer with the value of the request, absent if the request has none."""
    return accepted(request, position, request.value)


@mypyc_attr(allow_interpreted_subclasses=True)
class Echo(OperationService):
    """The operation ECHO, which returns the value."""

    def __init__(self) -> None:
        super().__init__({Operation.ECHO: echo})

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: memoryview, position: int
    ) -> None:
        """Answer a connected client, from the bytes alone where the request has its usual form."""
        # Without a state to change, there is no work for a message that this member does not answer.
        if session is not None and session.is_connected:
            answer = echo_response(payload, position)
            if answer is not None:
                session.respond(answer)
            else:
                super().on_session_message(session, timestamp, payload, position)
