"""Locust users of a cluster: a base for one's own, and one for each shipped service.

Users are open-loop: each operation has an intended start on the user's schedule, and its latency counts from there, so
that an operation that had to wait for a slow one before it shows the wait. Each operation goes into the history.
"""

import itertools
import time
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Final

from locust import User, task
from locust.exception import StopUser

from upheaval.history import Function, HistoryWriter, Operation, Outcome
from upheaval.jsonfields import Json
from upheaval.load.settings import LoadSettings
from upheaval.service_messages import decode_result, encode_operation
from upheaval.workload import APPENDS_A_LIST
from upheaval_node.client.driver import BlockingClient, NotSent
from upheaval_node.client.operations import is_response_to
from upheaval_node.errors import NodeError

KEYS: Final = 8
REQUEST_TYPE: Final = "upheaval"
_NS: Final = 1_000_000_000


class LoadContext:
    """What the users of one load share: settings, history, and the numbers that must differ between them."""

    def __init__(self, settings: LoadSettings) -> None:
        self.settings = settings
        self.history = HistoryWriter(Path(settings.history))
        self.ids = itertools.count(settings.first_id)
        self.processes = itertools.count(settings.first_id)
        self.values = itertools.count(settings.first_id)
        self.users = itertools.count()
        self.appended = [0] * KEYS
        self.in_flight = 0
        self.is_over = False
        """No user begins another operation. Locust itself may end a user right after it has begun one."""


class ClusterUser(User):  # type: ignore[misc]
    """A user with a session of its own. Give it tasks that call `perform`, or `call` for a service of one's own."""

    abstract = True
    context_of_load: ClassVar[LoadContext]

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.load: LoadContext = type(self).context_of_load
        settings = self.load.settings
        self.random = Random(f"locust/{settings.seed}/{next(self.load.users)}")
        self._client = BlockingClient(settings.endpoints, settings.timeout_s, client_name="locust")
        self._is_opened = False
        self._process = next(self.load.processes)
        self._period_ns = round(_NS / settings.rate) if settings.rate else 0
        self._intended_ns = 0

    # --- locust's hooks ---

    def on_start(self) -> None:
        # Users that were spawned in the same instant start at different points of their period.
        self._intended_ns = time.monotonic_ns() + round(self.random.random() * self._period_ns)

    def on_stop(self) -> None:
        self._client.close()

    def wait_time(self) -> float:
        """Until the next intended start; nothing when that has passed."""
        if not self._period_ns:
            return 0.0
        self._intended_ns += self._period_ns
        return max(0.0, (self._intended_ns - time.monotonic_ns()) / _NS)

    # --- operations ---

    def perform(self, function: Function, key: str, value: Json = None) -> Json:
        """One operation of a shipped service, into the history and locust's statistics; its result, None without."""
        self._require_time()
        operation_id = next(self.load.ids)
        payload = encode_operation(operation_id, function, key, value)
        outcome, result, position, complete_ns = Outcome.UNKNOWN, None, None, None
        error: BaseException | None = None
        invoke_ns = time.monotonic_ns()
        try:
            answer = self._request(payload, operation_id)
            complete_ns = time.monotonic_ns()
            _, position, result, refusal = decode_result(answer)
            result = {"error": refusal} if refusal else result
            outcome = Outcome.OK
        except NodeError as raised:
            error = raised
            outcome = Outcome.FAIL if isinstance(raised, NotSent) else Outcome.UNKNOWN
            complete_ns = None
        finally:
            # Also when locust ends the user in the middle: then the outcome is unknown.
            invoke_ns = max(invoke_ns, self._client.invoke_ns)
            self.load.history.add(
                Operation(
                    operation_id, self._process, function, key, value, invoke_ns, complete_ns, outcome, result, position
                )
            )
            if outcome is Outcome.UNKNOWN:
                self._process = next(self.load.processes)
        self._fire(function.value, invoke_ns, complete_ns, len(payload), error)
        return result

    def call(self, name: str, payload: bytes) -> bytes | None:
        """One request to a service of one's own, in locust's statistics under `name`; None without an answer."""
        self._require_time()
        invoke_ns = time.monotonic_ns()
        try:
            answer = self._request(payload, None)
        except NodeError as error:
            self._fire(name, invoke_ns, None, 0, error)
            return None
        self._fire(name, invoke_ns, time.monotonic_ns(), len(answer), None)
        return answer

    def _request(self, payload: bytes, operation_id: int | None) -> bytes:
        """Raises `NotSent` for everything that happens before the request left."""
        client = self._client
        self.load.in_flight += 1
        try:
            self._require_session(client)
            if operation_id is None:
                return client.request(payload)
            return client.request(payload, lambda received: is_response_to(operation_id, received))
        finally:
            self.load.in_flight -= 1

    def _require_time(self) -> None:
        if self.load.is_over:
            raise StopUser

    def _require_session(self, client: BlockingClient) -> None:
        try:
            if not self._is_opened or client.session.is_closed:
                client.reconnect()
                self._is_opened = True
        except NodeError as error:
            raise NotSent(f"no session: {type(error).__name__}") from error

    def _fire(self, name: str, invoke_ns: int, end_ns: int | None, length: int, error: BaseException | None) -> None:
        end_ns = end_ns or time.monotonic_ns()
        intended_ns = min(self._intended_ns, invoke_ns) if self._period_ns else invoke_ns
        self.environment.events.request.fire(
            request_type=REQUEST_TYPE,
            name=name,
            response_time=(end_ns - intended_ns) / 1e6,
            response_length=length,
            exception=error,
            context={},
        )


class EchoUser(ClusterUser):
    """Gets texts back."""

    @task
    def echo(self) -> None:
        self.perform(Function.ECHO, "", f"echo {next(self.load.values)}")


class RegisterUser(ClusterUser):
    """Reads, writes and compare-and-sets a few keys, all of which the users share."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self._seen: dict[str, Json] = {}

    @task(5)
    def read(self) -> None:
        key = self._key()
        self._seen[key] = self.perform(Function.READ, key)

    @task(5)
    def write(self) -> None:
        key = self._key()
        value = self._seen[key] = next(self.load.values)
        self.perform(Function.WRITE, key, value)

    @task(4)
    def compare_and_set(self) -> None:
        key = self._key()
        self.perform(Function.CAS, key, [self._seen.get(key), next(self.load.values)])

    def _key(self) -> str:
        return f"r{self.random.randrange(KEYS)}"


class AppendUser(ClusterUser):
    """Appends to a few lists and reads them; a list that has grown long is left for a new one."""

    @task(4)
    def append(self) -> None:
        index = self.random.randrange(KEYS)
        key = self._list_key(index)
        self.load.appended[index] += 1
        self.perform(Function.APPEND, key, next(self.load.values))

    @task(1)
    def read_list(self) -> None:
        self.perform(Function.LIST, self._list_key(self.random.randrange(KEYS)))

    def _list_key(self, index: int) -> str:
        settings = self.load.settings
        return f"l{index}.{settings.first_id}.{self.load.appended[index] // APPENDS_A_LIST}"


class WorkbenchUser(RegisterUser, AppendUser, EchoUser):
    """Everything that the workbench service can do."""
