"""What is traced of the exceptions of a service: each place once, bounded, with file and line of the service's code."""

from collections.abc import Callable

from upheaval_node.errors import DecodeError, PeerError, UsageError
from upheaval_node.service.raised import PLACES_MAX, TRACEBACK_MAX, RaisedExceptions, is_of_service
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import Now, Ns

NOW = Now(Ns(5), 6)


class Trace:
    """A `ports.Tracer` that keeps the fields of events."""

    def __init__(self) -> None:
        self.events: list[dict[str, int | str | bool | None]] = []

    def emit(self, now: Now, event: TraceKind, **fields: int | str | bool | None) -> None:
        assert (now, event) == (NOW, TraceKind.SERVICE_RAISED)
        self.events.append(fields)


def on_session_message(fail: Callable[[], object]) -> None:
    fail()


def raised_by(fail: Callable[[], object]) -> Exception:
    try:
        on_session_message(fail)
    except Exception as error:  # noqa: BLE001 - whatever the service raises
        return error
    raise AssertionError("nothing was raised")


def half_done() -> None:
    raise ValueError("half done")


def told(*errors: Exception) -> list[dict[str, int | str | bool | None]]:
    trace = Trace()
    raised = RaisedExceptions(trace, 3)
    for position, error in enumerate(errors):
        raised.trace(NOW, position, error)
    return trace.events


def test_the_first_of_a_place_has_its_traceback_and_counts_are_told_when_they_double() -> None:
    events = told(*(raised_by(half_done) for _ in range(9)))
    assert [event["count"] for event in events] == [1, 2, 4, 8]
    assert [event["log_position"] for event in events] == [0, 1, 3, 7]
    assert [bool(event["traceback"]) for event in events] == [True, False, False, False]
    first = events[0]
    assert (first["service_id"], first["error"]) == (3, "ValueError: half done")
    assert str(first["where"]).endswith(" in half_done")
    text = str(first["traceback"])
    assert "in half_done" in text
    assert "in on_session_message" in text
    assert 'raise ValueError("half done")' in text
    assert f'File "{__name__.replace(".", "/")}.py"' in text


def test_an_error_that_the_node_raises_for_a_service_is_found_in_the_code_of_the_service() -> None:
    def calls_the_node() -> None:
        int.from_bytes(raised_in_node(), "little")

    def raised_in_node() -> bytes:
        from upheaval_node.protocol.channel import Channel

        Channel.parse("no channel")
        return b""

    error = raised_by(calls_the_node)
    assert isinstance(error, UsageError | PeerError | ValueError)
    event = told(error)[0]
    assert str(event["where"]).endswith(" in raised_in_node")
    assert "upheaval_node/protocol/channel.py" in str(event["traceback"])


def test_what_caused_it_is_in_the_traceback() -> None:
    def fail() -> None:
        try:
            half_done()
        except ValueError as error:
            raise KeyError(5) from error

    assert "ValueError: half done" in str(told(raised_by(fail))[0]["traceback"])


def test_places_lengths_and_messages_are_bounded() -> None:
    def deep(depth: int) -> None:
        if depth:
            deep(depth - 1)
        raise ValueError("x" * 10**6)

    event = told(raised_by(lambda: deep(900)))[0]
    assert len(str(event["traceback"])) <= TRACEBACK_MAX
    assert len(str(event["error"])) < 1000

    kinds = [type(f"Error{number}", (Exception,), {}) for number in range(PLACES_MAX + 30)]

    def raise_one(kind: type[Exception]) -> None:
        raise kind

    events = told(*(raised_by(lambda kind=kind: raise_one(kind)) for kind in kinds))  # type: ignore[misc]
    assert sum(bool(event["traceback"]) for event in events) == PLACES_MAX + 1


def test_an_exception_that_cannot_be_shown_is_told_all_the_same() -> None:
    class Hidden(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def fail() -> None:
        raise Hidden

    assert "Hidden" in str(told(raised_by(fail))[0]["error"])


def test_an_error_of_the_node_alone_is_not_the_services() -> None:
    assert is_of_service(raised_by(half_done))
    assert not is_of_service(DecodeError("too short"))
