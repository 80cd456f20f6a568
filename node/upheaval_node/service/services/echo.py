"""The echo service: the answer is the value of the request. It has no state."""

from upheaval_node.derivable import mypyc_attr
from upheaval_node.service.api import ClientSession
from upheaval_node.service.services.encoding import Operation, Request, Response, echo_response
from upheaval_node.service.services.operations import OperationService, accepted


def echo(request: Request, position: int) -> Response:
    """Answer with the value of the request, or with none where it has none."""
    return accepted(request, position, request.value)


@mypyc_attr(allow_interpreted_subclasses=True)
class Echo(OperationService):
    """ECHO: gives back the value."""

    def __init__(self) -> None:
        super().__init__({Operation.ECHO: echo})

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: memoryview, position: int
    ) -> None:
        """Answers from the bytes where the request has its usual form; does nothing where no client is connected."""
        # Without a state to change, a message that this member does not answer needs no work at all.
        if session is not None and session.is_connected:
            answer = echo_response(payload, position)
            if answer is not None:
                session.respond(answer)
            else:
                super().on_session_message(session, timestamp, payload, position)
