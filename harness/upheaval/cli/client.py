"""`upheaval client`: one operation by hand. It goes into the history of the folder like that of any other client."""

import contextlib
import json
import random
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from upheaval.cli.answers import answer
from upheaval.cli.cluster_commands import (
    AppendOptions,
    CallOptions,
    CompareAndSetOptions,
    EchoOptions,
    ReadOptions,
    RequestOptions,
    WriteOptions,
)
from upheaval.errors import UnknownOutcome, UsageError
from upheaval.records import (
    Function,
    HistoryWriter,
    Json,
    Operation,
    Outcome,
    RunFolder,
    SessionEnd,
    answer_text,
    call_digest,
    decode_result,
    encode_operation,
)
from upheaval.runtimes.opening import open_cluster
from upheaval.security import CLIENT, files_of
from upheaval.system import WaitingClients
from upheaval.testing.calls import NAME
from upheaval.workload import session_end
from upheaval_node.client.driver import NotSent, OutcomeUnknown
from upheaval_node.client.driving import ClientOptions
from upheaval_node.client.operations import is_response_to
from upheaval_node.errors import TimeoutExpired
from upheaval_node.ports import Buffer

# Above all ids that loads give out, so that operations by hand never meet theirs.
_FIRST_ID: Final = 1 << 60
_ID_BITS: Final = 60


def read(options: ReadOptions) -> int:
    """The value of a register."""
    return _carry_out(options.client, _operation(Function.READ, options.key, None))


def write(options: WriteOptions) -> int:
    """A new value of a register."""
    return _carry_out(options.client, _operation(Function.WRITE, options.key, _value(options.value)))


def compare_and_set(options: CompareAndSetOptions) -> int:
    """A new value of a register that has the expected one."""
    return _carry_out(
        options.client, _operation(Function.CAS, options.key, [_value(options.expected), _value(options.new)])
    )


def append(options: AppendOptions) -> int:
    """A value more in a list, or the list. Raises `UsageError` for arguments that do not go together."""
    if options.read:
        if options.value is not None:
            raise UsageError("append --read takes a key and no value")
        return _carry_out(options.client, _operation(Function.LIST, options.key, None))
    if options.value is None:
        raise UsageError("append takes a key and a value, or --read and a key")
    return _carry_out(options.client, _operation(Function.APPEND, options.key, _value(options.value)))


def echo(options: EchoOptions) -> int:
    """A text and back."""
    return _carry_out(options.client, _operation(Function.ECHO, "", options.value))


def call(options: CallOptions) -> int:
    """A text to a custom service, and its next message."""
    content = options.payload.encode()
    request = _Request(
        _new_id(),
        Function.CALL,
        NAME,
        call_digest(content),
        content,
        lambda _: True,
        lambda response: (None, answer_text(bytes(response)), ""),
    )
    return _carry_out(options.client, request)


@dataclass(frozen=True, slots=True)
class _Request:
    """One operation, as the history has it, and its messages."""

    id: int
    function: Function
    key: str
    value: Json
    payload: bytes
    accepts: Callable[[Buffer], bool]
    read: Callable[[Buffer], tuple[int | None, Json, str]]
    """The position, the result and the refusal in an answer."""


def _operation(function: Function, key: str, value: Json) -> _Request:
    """A request to a shipped service."""
    number = _new_id()

    def read_answer(response: Buffer) -> tuple[int | None, Json, str]:
        _, position, result, error = decode_result(response)
        return position, result, error

    payload = encode_operation(number, function, key, value)
    return _Request(number, function, key, value, payload, lambda got: is_response_to(number, got), read_answer)


def _new_id() -> int:
    return _FIRST_ID + random.SystemRandom().getrandbits(_ID_BITS)


def _carry_out(options: RequestOptions, request: _Request) -> int:
    """Do one operation and print its result. Raises `UsageError` when the cluster does not run, or its service does not
    know the operation.
    """
    with open_cluster(options.dir) as cluster:
        folder = shlex.quote(str(options.dir))
        _require_known(request.function, cluster.config.service, f"upheaval client --dir {folder}")
        if not cluster.is_running():
            raise UsageError(f"the cluster in {options.dir} is not running: start it with `upheaval up --dir {folder}`")
        given: ClientOptions = {
            "client_name": "upheaval client",
            "tls": cluster.client_tls() if options.tls is None else files_of(options.tls, CLIENT),
            "credentials_file": options.credentials or "",
        }
        with contextlib.closing(cluster.system.waiting_clients(cluster.way_in(), given)) as clients:
            result = _run(cluster.run, clients, request, options.timeout)
    answer(_shown(request.function, result), {"result": result}, as_json=options.json)
    return 0


def _require_known(function: Function, service: str, command: str) -> None:
    """An operation of a shipped service could break a custom one. Raises `UsageError`."""
    if ":" in service and function is not Function.CALL:
        raise UsageError(f"the cluster runs {service}: send it a text with `{command} call TEXT`")
    if ":" not in service and function is Function.CALL:
        raise UsageError(f"the cluster runs {service}, which is shipped: use register, append or echo instead of call")


def _value(text: str) -> Json:
    """Integers are integers, everything else is text."""
    try:
        number = int(text)
    except ValueError:
        return text
    return number if str(number) == text else text


def _run(run: RunFolder, clients: WaitingClients, request: _Request, timeout_s: float) -> Json:
    """Do the operation, trying again only while nothing was sent."""
    invoke_ns = time.monotonic_ns()
    deadline = time.monotonic() + timeout_s
    outcome = Outcome.FAIL
    complete_ns: int | None = None
    result: Json = None
    position: int | None = None
    session: int | None = None
    end: SessionEnd | None = None
    error = ""
    try:
        response, complete_ns, end = _request(clients, request, deadline)
        session = None if end is None else end.session
        position, result, error = request.read(response)
        outcome = Outcome.OK
    except BaseException as raised:
        if not isinstance(raised, NotSent):
            outcome = Outcome.UNKNOWN
        raise
    finally:
        operation = Operation(
            request.id,
            request.id,
            request.function,
            request.key,
            request.value,
            invoke_ns,
            complete_ns,
            outcome,
            {"error": error} if error else result,
            position,
            session,
        )
        _record(run, operation, end)
    if error:
        raise UsageError(f"the service refused: {error}")
    return result


def _request(clients: WaitingClients, request: _Request, deadline: float) -> tuple[Buffer, int, SessionEnd | None]:
    """Send once; the answer, when it came, and the end of the session that took it.

    Raises `NotSent`, or `UnknownOutcome` once it was sent.
    """
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise NotSent("no leader took the operation in time: it has no effect (see `upheaval status`)")
        try:
            with contextlib.closing(clients.new_client(left)) as client:
                client.reconnect()
                response = client.request(request.payload, request.accepts)
                complete_ns = time.monotonic_ns()
                return response, complete_ns, session_end(client.session, complete_ns)
        except OutcomeUnknown as error:
            raise UnknownOutcome(str(error)) from error
        except NotSent:
            continue
        except TimeoutExpired as error:
            raise NotSent(str(error)) from error


def _record(run: RunFolder, operation: Operation, end: SessionEnd | None) -> None:
    with HistoryWriter(run.history_file) as history:
        history.add(operation)
    if end is not None:
        run.add_session_end(end)


def _shown(function: Function, result: Json) -> str:
    if function in (Function.WRITE, Function.APPEND):
        return "ok"
    return result if isinstance(result, str) else json.dumps(result)
