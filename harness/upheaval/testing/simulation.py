"""A test's cluster on the simulated runtime. Virtual time passes only inside calls that wait."""

from collections.abc import Sequence
from typing import Final, Self

from upheaval.accepts import Accepts, Test
from upheaval.errors import UnknownOutcome
from upheaval.execution.simulated import SimulatedTarget
from upheaval.operations.restore import Source
from upheaval.operations.simulated_restore import restore_into
from upheaval.records import Outcome, RunFolder
from upheaval.runtimes.simulated.cluster import SimulatedCluster, member_settings
from upheaval.runtimes.simulated.process import SimulatedProcess
from upheaval.runtimes.simulated.world import World
from upheaval.system import ClusterSpec
from upheaval.testing.calls import Call, CallLog, Client
from upheaval.testing.together import Ask, Failure
from upheaval.workload import ClientLoad, LoadCounts, WorkloadSettings
from upheaval_node.client.driver import NotSent, OutcomeUnknown
from upheaval_node.client.session import ClusterClient
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.ports import Buffer
from upheaval_node.types import NEVER_NS, Now, S

RETRY_NS = S // 100
LOAD_END_S = 30.0


class SimulatedBackend(SimulatedTarget):
    """Implements `backend.Backend`."""

    clients_failure: Final = ""
    """A simulated client that fails ends the call that waits for it, and each later one."""

    def __init__(
        self,
        folder: RunFolder,
        spec: ClusterSpec,
        *,
        seed: int,
        origin: Source | None = None,
    ) -> None:
        cluster = SimulatedCluster(
            World(seed), spec, settings=member_settings(spec), folder=folder, traces_protocol=True
        )
        super().__init__(cluster)
        self._clients = 0
        self._load: ClientLoad | None = None
        if origin is not None:
            restore_into(cluster, origin)
        self._calls = CallLog(
            spec.service, cluster.history.append, cluster.strays.append, self.now_ns, cluster.first_id
        )

    @property
    def target(self) -> Self:
        """This object: in the simulation, backend and target are one."""
        return self

    def up(self, timeout_s: float) -> int:
        """Start all members and let time pass until one leads and serves."""
        self.cluster.start_all()
        return self.cluster.wait_until_leader(timeout_s)

    def wait_until_leader(self, timeout_s: float, *, other_than: int | None = None) -> int:
        """Wait for a leader that is not `other_than`. Raises `UnknownOutcome` when the time is over."""
        self.cluster.wait_until(lambda: self.leader() not in (None, other_than), timeout_s, "leader")
        leader = self.leader()
        assert leader is not None
        return leader

    def wait_until_caught_up(self, member_id: int, timeout_s: float) -> None:
        """Wait until the member follows or leads. Raises `UnknownOutcome` when the time is over."""
        what = f"member {member_id} that has caught up"
        self.cluster.wait_until(lambda: self.has_caught_up(member_id), timeout_s, what)

    def expect_end(self, member_id: int) -> frozenset[str]:
        """The running simulated processes of the member."""
        member = self.cluster.members[member_id]
        names = member.incarnation()
        member.expected_ends |= names
        return names

    def wait_until_ended(self, member_id: int, names: frozenset[str], timeout_s: float) -> list[int]:
        """Raises `UnknownOutcome` if one still runs when the time is over."""
        cluster = self.cluster
        known = cluster.members[member_id].exit_statuses
        if not cluster.world.run_until(lambda: names <= known.keys(), int(timeout_s * S)):
            raise UnknownOutcome(f"member {member_id} does not end within {timeout_s:g} s")
        return [known[name] for name in sorted(names)]

    # --- clients and the end ---

    def client(self, timeout_s: float, accepts: Accepts | None = None) -> "SimulatedClient":
        """A client on a separate host. Its calls go into the history if the service is custom."""
        self._clients += 1
        return SimulatedClient(self.cluster, f"test-{self._clients}", timeout_s, self._calls, accepts)

    def ask_round(self, asks: Sequence[Ask]) -> Sequence[bytes | Failure]:
        """All requests start at the same instant."""
        return _ask_round(self.cluster, asks)

    def load(self, settings: WorkloadSettings) -> "SimulatedLoad":
        """Start a load on the shipped service."""
        self._load = self.cluster.start_load(settings)
        return SimulatedLoad(self.cluster, self._load)

    def acknowledged(self) -> int:
        """How many operations of the load and calls of clients were answered."""
        return self._calls.acknowledged + (0 if self._load is None else self._load.counts.ok)

    def down(self) -> None:
        """Resume paused members, then stop everything in order."""
        for member in self.cluster.members:
            member.resume()
        self.cluster.down()


class SimulatedLoad:
    """Implements `backend.RunningLoad`."""

    def __init__(self, cluster: SimulatedCluster, load: ClientLoad) -> None:
        self._cluster = cluster
        self._load = load

    @property
    def counts(self) -> LoadCounts:
        """The outcomes of its operations so far."""
        return self._load.counts

    def wait_until_acknowledged(self, target: int, timeout_s: float) -> None:
        """Raises `UnknownOutcome` when the time is over."""
        what = f"acknowledgement of operation {target} (there are {self.counts.ok})"
        self._cluster.wait_until(lambda: self._load.counts.ok >= target, timeout_s, what)

    def finish(self) -> LoadCounts:
        """Let time pass until no operation is in flight."""
        self._load.stop()
        self._cluster.wait_until(lambda: self._load.is_idle, LOAD_END_S, "end of the load")
        return self._load.counts


def _ask_round(cluster: SimulatedCluster, asks: Sequence[Ask]) -> Sequence[bytes | Failure]:
    """Each call is in the history when this returns or raises."""
    begun: list[SimulatedClient] = []
    try:
        for ask in asks:
            assert isinstance(ask.client, SimulatedClient)
            ask.client.begin(ask.payload, ask.accepts)
            begun.append(ask.client)
        timeout_s = max((client.timeout_s for client in begun), default=0)
        cluster.world.run_until(lambda: all(client.is_settled() for client in begun), int(timeout_s * S))
        cluster.require_no_failure()
        return [client.result() for client in begun]
    finally:
        for client in begun:
            client.finish()


class SimulatedClient(Client):
    """Requests from a separate host in the simulated network. It is the agent of its own process."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        host: str,
        timeout_s: float,
        calls: CallLog,
        accepts: Accepts | None = None,
    ) -> None:
        super().__init__(calls, accepts)
        self.timeout_s = timeout_s
        self._cluster = cluster
        self._random = cluster.world.stream(host)
        self._process = SimulatedProcess(cluster.world, host, host, on_exit=self._on_exit)
        network = cluster.fabric.network(self._process)
        self._media = MediaDriver(network, StaticResolver(), cluster.settings.media, self._random, name=host)
        self._session: ClusterClient | None = None
        self._test: Test | None = None
        self._wanted: bytes | None = None
        self._is_sent = False
        self._answer: bytes | None = None
        self._raised: Exception | None = None
        self._call_begun: Call | None = None
        self._process.start((self._media, self))

    def wait(self, seconds: float) -> None:
        """Let virtual time pass for the whole cluster."""
        self._cluster.world.run_for(int(seconds * S))

    def _try(self, payload: bytes, accepts: Accepts | None) -> bytes:
        (result,) = _ask_round(self._cluster, [Ask(self, payload, accepts)])
        if isinstance(result, bytes):
            return result
        raise result

    def begin(self, payload: bytes, accepts: Accepts | None) -> None:
        """Send the request. No time passes."""
        self._test = self._test_for(payload, accepts)
        self._wanted, self._is_sent, self._answer, self._raised = payload, False, None, None
        self._process.post(lambda: None)
        self._call_begun = self._begin(payload, self._test)

    def result(self) -> bytes | Failure:
        """The answer that has arrived, or why there is none. Raises what `accepts` raised."""
        if self._raised is not None:
            raise self._raised
        if self._answer is not None:
            return self._answer
        if not self._is_sent:
            return NotSent("not sent within the time-out: no session with the cluster")
        return OutcomeUnknown("no answer within the time-out: the outcome of the request is unknown")

    def finish(self) -> None:
        """Wait for no answer any more, and record the outcome."""
        self._wanted = None
        if self._answer is not None:
            self._end(self._call_begun, Outcome.OK, self._answer)
        elif not self._is_sent:
            self._end(self._call_begun, Outcome.FAIL)
        else:
            self._end(self._call_begun, Outcome.UNKNOWN)
            if self._session is not None:
                # The late answer to this request must not answer the next one.
                self._process.post(self._session.close)

    def _session_id(self) -> int | None:
        return None if self._session is None else int(self._session.session_id)

    def close(self) -> None:
        """Close the session in the client's next duty cycle."""
        if self._session is not None:
            self._process.post(self._session.close)

    def is_settled(self) -> bool:
        """Whether the answer has arrived or cannot arrive any more."""
        ended = self._is_sent and (self._session is None or self._session.is_closed)
        return self._answer is not None or self._raised is not None or ended or bool(self._cluster.failures)

    def _on_exit(self, process: SimulatedProcess) -> None:
        if process.failure is not None:
            self._cluster.failures.append((process.name, process.failure))

    # --- the agent ---

    def do_work(self, now: Now) -> int:
        """Open a session if one is wanted, and send the request once."""
        work = 0
        if self._session is None or self._session.is_closed:
            if self._wanted is None or self._is_sent:
                return 0
            self._session = ClusterClient(
                self._media, self._cluster.ingress_endpoints, random=self._random, client_name="upheaval test"
            )
            work += 1
        session = self._session
        work += session.do_work(now) + session.poll(self._on_message, 1)
        if self._wanted is not None and not self._is_sent and session.is_connected and session.offer(self._wanted) > 0:
            self._is_sent = True
            work += 1
        return work

    def next_deadline_ns(self) -> int:
        """The deadline of the session, or of the next attempt to send."""
        if self._session is None or self._session.is_closed:
            return NEVER_NS
        deadline_ns = self._session.next_deadline_ns()
        is_waiting = self._wanted is not None and not self._is_sent
        return min(deadline_ns, self._cluster.world.now_ns + RETRY_NS) if is_waiting else deadline_ns

    def _on_message(self, timestamp: int, payload: Buffer) -> None:  # noqa: ARG002 - the cluster time is not needed
        is_waiting = self._is_sent and self._wanted is not None and self._answer is None and self._raised is None
        if is_waiting and self._takes(payload):
            self._answer = bytes(payload)
        else:
            self._hear(payload)

    def _takes(self, payload: Buffer) -> bool:
        """A test that raises fails its own request, in the call of the user."""
        try:
            return self._test is None or self._test(payload)
        except Exception as error:  # noqa: BLE001 - the user's own function
            self._raised = error
            return False
