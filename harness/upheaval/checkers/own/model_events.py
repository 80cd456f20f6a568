"""The log events that a model receives in addition to requests: service messages, sessions, terms, timers and time."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from upheaval.checkers.evidence.log_messages import decode_message, is_session_message
from upheaval.checkers.states.replay import LoggedMessage, is_request
from upheaval.model import Model
from upheaval_node.errors import DecodeError
from upheaval_node.protocol import cluster_messages as cm, session_header

Hook = Callable[[Model], object]
_HOOKS: Final = ("service_message", "session_opened", "session_closed", "term_began", "timer_fired", "time_passed")


class Models:
    """The instances of a model, one for each key of `partition`, which receive the same events in log order.

    An instance is made at its first request. It then receives all earlier events, so that it knows earlier sessions and
    terms as the other instances do.
    """

    def __init__(self, model: type[Model]) -> None:
        self._model = model
        self._instances: dict[str, Model] = {}
        self._events: list[Hook] = []
        self._time = -1
        self._hears = any(getattr(model, name) is not getattr(Model, name) for name in _HOOKS)

    def hear(self, message: LoggedMessage) -> None:
        """Pass an entry to all instances; of a request, only its time."""
        if not self._hears:
            return
        for event in self._hooks(message):
            self._events.append(event)
            for instance in self._instances.values():
                event(instance)

    def of(self, key: str) -> Model:
        """The instance for a key."""
        if key not in self._instances:
            self._instances[key] = instance = self._model()
            for event in self._events:
                event(instance)
        return self._instances[key]

    def _hooks(self, message: LoggedMessage) -> Iterator[Hook]:
        timestamp, hooks = _events_of(message)
        if timestamp > self._time:
            self._time = timestamp
            yield lambda model: model.time_passed(timestamp)
        yield from hooks


def _events_of(message: LoggedMessage) -> tuple[int, Sequence[Hook]]:
    """The cluster time of an entry (-1 if it has none), and the calls to the model."""
    content = message.content
    if is_session_message(content):
        _, _, at = session_header.unpack_session_header(content)
        payload = bytes(content[session_header.LENGTH :])
        return at, () if is_request(message) else (lambda model: model.service_message(payload, at),)
    try:
        event = decode_message(content)
    except DecodeError:
        return -1, ()
    match event:
        case cm.SessionOpenEvent(cluster_session_id=session_id, timestamp=at):
            return at, (lambda model: model.session_opened(session_id, at),)
        case cm.SessionCloseEvent(cluster_session_id=session_id, timestamp=at):
            return at, (lambda model: model.session_closed(session_id, at),)
        case cm.TimerEvent(correlation_id=timer_id, timestamp=at):
            return at, (lambda model: model.timer_fired(timer_id, at),)
        case cm.NewLeadershipTermEvent(leadership_term_id=term_id, timestamp=at):
            return at, (lambda model: model.term_began(term_id, at),)
        case cm.ClusterActionRequest(timestamp=at):
            return at, ()
    return -1, ()
