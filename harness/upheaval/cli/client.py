"""`upheaval client`: one operation by hand. It goes into the history of the folder like that of any other client."""

import contextlib
import json
import random
import time
from typing import Final

from upheaval.cli.answers import answer
from upheaval.cli.cluster_commands import (
    AppendOptions,
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
    decode_result,
    encode_operation,
)
from upheaval.runtimes.opening import open_cluster
from upheaval.security import CLIENT, files_of
from upheaval.system import WaitingClients
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
    return _carry_out(options.client, Function.READ, options.key, None)


def write(options: WriteOptions) -> int:
    """A new value of a register."""
    return _carry_out(options.client, Function.WRITE, options.key, _value(options.value))


def compare_and_set(options: CompareAndSetOptions) -> int:
    """A new value of a register that has the expected one."""
    return _carry_out(options.client, Function.CAS, options.key, [_value(options.expected), _value(options.new)])


def append(options: AppendOptions) -> int:
    """A value more in a list, or the list. Raises `UsageError` for arguments that do not go together."""
    if options.read:
        if options.value is not None:
            raise UsageError("append --read takes a key and no value")
        return _carry_out(options.client, Function.LIST, options.key, None)
    if options.value is None:
        raise UsageError("append takes a key and a value, or --read and a key")
    return _carry_out(options.client, Function.APPEND, options.key, _value(options.value))


def echo(options: EchoOptions) -> int:
    """A text and back."""
    return _carry_out(options.client, Function.ECHO, "", options.value)


def _carry_out(options: RequestOptions, function: Function, key: str, value: Json) -> int:
    """Do one operation and print its result. Raises `UsageError` when the cluster does not run."""
    with open_cluster(options.dir) as cluster:
        if not cluster.is_running():
            raise UsageError(
                f"the cluster in {options.dir} is not running: start it with `upheaval up --dir {options.dir}`"
            )
        given: ClientOptions = {
            "client_name": "upheaval client",
            "tls": cluster.client_tls() if options.tls is None else files_of(options.tls, CLIENT),
            "credentials_file": options.credentials or "",
        }
        with contextlib.closing(cluster.system.waiting_clients(cluster.way_in(), given)) as clients:
            result = _run(cluster.run, clients, function, key, value, options.timeout)
    answer(_shown(function, result), {"result": result}, as_json=options.json)
    return 0


def _value(text: str) -> Json:
    """Integers are integers, everything else is text."""
    try:
        number = int(text)
    except ValueError:
        return text
    return number if str(number) == text else text


def _run(run: RunFolder, clients: WaitingClients, function: Function, key: str, value: Json, timeout_s: float) -> Json:
    """Do the operation, trying again only while nothing was sent."""
    operation_id = _FIRST_ID + random.SystemRandom().getrandbits(_ID_BITS)
    payload = encode_operation(operation_id, function, key, value)
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
        response, complete_ns, end = _request(clients, operation_id, payload, deadline)
        session = None if end is None else end.session
        _, position, result, error = decode_result(response)
        outcome = Outcome.OK
    except BaseException as raised:
        if not isinstance(raised, NotSent):
            outcome = Outcome.UNKNOWN
        raise
    finally:
        operation = Operation(
            operation_id,
            operation_id,
            function,
            key,
            value,
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


def _request(
    clients: WaitingClients, operation_id: int, payload: bytes, deadline: float
) -> tuple[Buffer, int, SessionEnd | None]:
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
                response = client.request(payload, lambda received: is_response_to(operation_id, received))
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
