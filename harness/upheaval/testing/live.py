"""A test's cluster of real members: processes on loopback, or containers."""

import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from upheaval.accepts import Accepts, Test
from upheaval.errors import EnvironmentFault
from upheaval.execution.links import open_links, watch_consensus
from upheaval.execution.machines import machine_kinds, open_machines, require_machines
from upheaval.operations.restore import Source, next_id, restore, spec_of
from upheaval.records import HistoryWriter, Operation, RunFolder
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.opening import create_cluster
from upheaval.runtimes.process_load import ProcessLoad
from upheaval.stall_watch import StallWatch
from upheaval.system import ClusterSpec, KeptSession, WaitingClient, WaitingClients
from upheaval.testing.calls import CallLog, Client
from upheaval.testing.together import Ask, Failure
from upheaval.waits import wait_until
from upheaval.workload import WorkloadSettings
from upheaval_chaos.record import FaultRecord
from upheaval_node.client.driver import NotSent, OutcomeUnknown
from upheaval_node.client.driving import ClientOptions
from upheaval_node.errors import NodeError


class LiveBackend:
    """Implements `backend.Backend`."""

    def __init__(
        self,
        runtime: str,
        folder: Path,
        spec: ClusterSpec,
        *,
        seed: int,
        links: bool,
        machines: Collection[str] = (),
        origin: Source | None = None,
    ) -> None:
        kinds = machine_kinds(machines)
        require_machines(runtime, kinds, spec.sync_level)
        if origin is None:
            self.target = cluster = create_cluster(runtime, folder, spec)
        else:
            spec = replace(spec, profile=spec_of(origin).profile)
            self.target = cluster = restore(origin, folder, spec, runtime=runtime)
        self.run: RunFolder = cluster.run
        self._first_id = next_id(self.run.read_history()) if self.run.history_file.is_file() else 0
        self.run.change_manifest(lambda manifest: replace(manifest, seed=seed))
        self._history: HistoryWriter | None = None
        self._calls = CallLog(
            cluster.config.service, self._add_call, self.run.add_stray, time.monotonic_ns, self._first_id
        )
        self._watch: StallWatch | None = None
        self._load: ProcessLoad | None = None
        self._clients: WaitingClients | None = None
        cluster.acknowledged = lambda: self._calls.acknowledged + (0 if self._load is None else self._load.counts.ok)
        open_machines(cluster, kinds)
        self._open_links(seed, open_links if links else watch_consensus)

    def _open_links(self, seed: int, opening: Callable[[AnyCluster, int], None]) -> None:
        try:
            opening(self.target, seed)
        except EnvironmentFault as error:
            self.down()
            raise EnvironmentFault(f"{error}; links=False does without proxies and faults of links") from error
        except BaseException:
            self.down()
            raise

    @property
    def clients_failure(self) -> str:
        """Clients of Aeron need the program through which they reach the cluster."""
        return "" if self._clients is None else self._clients.failure

    def record_fault(self, fault: FaultRecord) -> None:
        """Written to the run folder at once."""
        self.run.add_fault(fault)

    def expect_end(self, member_id: int) -> frozenset[str]:
        """The running processes or containers of the member."""
        return self.target.member(member_id).incarnation()

    def wait_until_ended(self, member_id: int, names: frozenset[str], timeout_s: float) -> list[int]:
        """Raises `UnknownOutcome` if one still runs or has no exit status."""
        member = self.target.member(member_id)

        def statuses() -> list[int] | None:
            if names & member.incarnation():
                return None
            exits = [member.exit_status(name) for name in sorted(names)]
            known = [status for status in exits if status is not None]
            return known if len(known) == len(names) else None

        def running() -> str:
            return ", ".join(sorted(names & member.incarnation())) or "nothing runs, an exit status is missing"

        return wait_until(
            statuses, timeout_s=timeout_s, describe=lambda: f"member {member_id} does not end: {running()}"
        )

    # --- clients and the end ---

    def client(self, timeout_s: float, accepts: Accepts | None = None) -> Client:
        """Its calls go into the history if the service is custom."""
        if self._clients is None:
            target = self.target
            options: ClientOptions = {"client_name": "upheaval test", "tls": target.client_tls()}
            self._clients = target.system.waiting_clients(target.way_in(), options)
            self._watch = StallWatch(self.run.add_client_stall)
        return LiveClient(self._clients.new_client(timeout_s), self._calls, accepts)

    def ask_round(self, asks: Sequence[Ask]) -> Sequence[bytes | Failure]:
        """Each request runs in a separate thread."""
        with ThreadPoolExecutor(max(1, len(asks)), "upheaval-client") as threads:
            return list(threads.map(_result_of, asks))

    def load(self, settings: WorkloadSettings) -> ProcessLoad:
        """The load is in the manifest and runs in a separate thread."""
        self.run.change_manifest(lambda manifest: replace(manifest, workload=settings.to_json()))
        self._load = ProcessLoad(self.target, settings, first_id=self._first_id)
        self._load.start()
        return self._load

    def down(self) -> None:
        """End the cluster, then the history."""
        with ExitStack() as stack:
            if self._watch is not None:
                self._watch.close()
            if self._history is not None:
                stack.callback(self._history.close)
            if self._clients is not None:
                stack.callback(self._clients.close)
            self.target.down()

    def _add_call(self, operation: Operation) -> None:
        """Written at once, so that a killed test leaves its requests behind."""
        if self._history is None:
            self._history = self.run.history_writer(buffer_length=1)
        self.run.unseal()
        self._history.add(operation)


def _result_of(ask: Ask) -> bytes | Failure:
    try:
        return ask.client.request(ask.payload, ask.accepts)
    except (NotSent, OutcomeUnknown) as error:
        return error


class LiveClient(Client):
    """Requests over real sockets. Opens a new session when the last one has ended."""

    def __init__(self, client: WaitingClient, calls: CallLog, accepts: Accepts | None = None) -> None:
        super().__init__(calls, accepts)
        self._client = client
        self._client.on_unasked = self._hear
        self._kept = KeptSession(client)
        self._is_closed = False

    def wait(self, seconds: float) -> None:
        """Keep the session alive for a while. A closed client receives nothing more."""
        if not self._is_closed:
            self._client.idle(seconds)

    def close(self) -> None:
        """Close the session and its sockets. Messages that arrived before count."""
        if not self._is_closed:
            self._is_closed = True
            self._kept.close()

    def _session_id(self) -> int | None:
        return self._kept.session_id

    def _try(self, payload: bytes, accepts: Accepts | None) -> bytes:
        test = self._test_for(payload, accepts)
        self._require_session()
        with self._call(payload, test) as answers:
            answers.append(self._ask(payload, test))
            return answers[0]

    def _ask(self, payload: bytes, test: Test | None) -> bytes:
        try:
            return self._client.request(payload, test)
        except OutcomeUnknown:
            # The late answer to this request must not answer the next one.
            self._client.session.close()
            raise

    def _require_session(self) -> None:
        """Raises `NotSent` without a session; the history then records nothing."""
        try:
            if not self._kept.goes_on():
                self._kept.open()
        except NodeError as error:
            raise NotSent(f"no session with the cluster: {error}") from error
