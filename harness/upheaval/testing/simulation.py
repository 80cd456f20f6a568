"""A test's cluster on the simulated runtime: virtual time passes only inside the calls that wait."""

from upheaval.cluster import ELECTION_CLOSED, MemberStatus
from upheaval.errors import UsageError
from upheaval.run_folder import Converge, FaultRecord, RunFolder
from upheaval.runtimes.simulated.cluster import SECOND, SimulatedCluster, SimulatedMember
from upheaval.runtimes.simulated.process import SimulatedProcess
from upheaval.runtimes.simulated.world import World
from upheaval.testing.backend import Requests
from upheaval.workload import Load, LoadCounts, WorkloadSettings
from upheaval_node.client.driver import NotSent, OutcomeUnknown
from upheaval_node.client.session import ClusterClient
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.ports import Buffer
from upheaval_node.settings import profile_settings
from upheaval_node.types import MAX_POSITION, Now

RETRY_NS = SECOND // 100
LOAD_END_S = 30.0


class SimulatedBackend:
    """Implements `backend.Backend`."""

    def __init__(self, folder: RunFolder, *, members: int, service: str, sync_level: int, seed: int) -> None:
        self.run = folder
        self._cluster = SimulatedCluster(
            World(seed),
            members=members,
            settings=profile_settings("test", sync_level=sync_level),
            service=service,
            folder=folder,
        )
        self._open_faults: dict[int, FaultRecord] = {}
        self._clients = 0

    def up(self, timeout_s: float) -> int:
        self._cluster.start_all()
        return self._cluster.wait_until_leader(timeout_s)

    def status(self) -> list[MemberStatus]:
        return self._cluster.status()

    def leader(self) -> int | None:
        return self._cluster.leader()

    def wait_until_leader(self, timeout_s: float, other_than: int | None) -> int:
        cluster = self._cluster
        cluster.wait_until(lambda: cluster.leader() not in (None, other_than), timeout_s, "leader")
        leader = cluster.leader()
        assert leader is not None
        return leader

    def wait_until_caught_up(self, member_id: int, timeout_s: float) -> None:
        def caught_up() -> bool:
            status = self._cluster.status()[member_id]
            return status.alive and status.leader_member_id >= 0 and status.election_state == ELECTION_CLOSED

        self._cluster.wait_until(caught_up, timeout_s, f"member {member_id} that has caught up")

    # --- faults ---

    def kill(self, member_id: int, component: str | None) -> None:
        self._alive(member_id, "kill").kill(component)
        self._note("kill", member_id, "its process is dead")

    def stop(self, member_id: int) -> None:
        member = self._alive(member_id, "stop")
        self.resume(member_id)
        member.stop()
        self._note("stop", member_id, "its process has ended")

    def start(self, member_id: int) -> None:
        self._cluster.start(member_id)
        self._note_heal(member_id)

    def pause(self, member_id: int) -> None:
        self._alive(member_id, "pause")
        self._cluster.pause(member_id)
        self._note("pause", member_id, "its process is stopped")

    def resume(self, member_id: int) -> None:
        process = self._cluster.members[member_id].process
        if process is not None and process.is_paused:
            self._cluster.resume(member_id)
            self._note_heal(member_id)

    def _alive(self, member_id: int, what: str) -> SimulatedMember:
        member = self._cluster.members[member_id]
        if not member.alive:
            raise UsageError(f"member {member_id} is not running: nothing to {what}")
        return member

    def _note(self, what: str, member_id: int, proof: str) -> None:
        self._note_end(member_id, None)
        now_ns = self._cluster.world.now_ns
        self._open_faults[member_id] = FaultRecord(what, f"member-{member_id}", now_ns, now_ns, proof=proof)

    def _note_heal(self, member_id: int) -> None:
        self._note_end(member_id, self._cluster.world.now_ns)

    def _note_end(self, member_id: int, heal_ns: int | None) -> None:
        fault = self._open_faults.pop(member_id, None)
        if fault is not None:
            begin_ns = fault.inject_begin_ns
            record = FaultRecord(fault.what, fault.where, begin_ns, begin_ns, heal_ns, heal_ns, fault.proof)
            self._cluster.faults.append(record)

    # --- clients and the end ---

    def client(self, timeout_s: float) -> Requests:
        self._clients += 1
        return SimulatedClient(self._cluster, f"test-{self._clients}", timeout_s)

    def load(self, settings: WorkloadSettings) -> "SimulatedLoad":
        return SimulatedLoad(self._cluster, self._cluster.start_load(settings))

    def converge(self, timeout_s: float) -> Converge:
        return self._cluster.converge(timeout_s)

    def down(self) -> None:
        for member_id in range(len(self._cluster.members)):
            self.resume(member_id)
            self._note_end(member_id, None)
        self._cluster.down()


class SimulatedLoad:
    """Implements `backend.RunningLoad`."""

    def __init__(self, cluster: SimulatedCluster, load: Load) -> None:
        self._cluster = cluster
        self._load = load

    @property
    def counts(self) -> LoadCounts:
        return self._load.counts

    def wait_until_acknowledged(self, target: int, timeout_s: float) -> None:
        what = f"acknowledgement of operation {target} (there are {self.counts.ok})"
        self._cluster.wait_until(lambda: self._load.counts.ok >= target, timeout_s, what)

    def finish(self) -> LoadCounts:
        self._load.stop()
        self._cluster.wait_until(lambda: self._load.is_idle, LOAD_END_S, "end of the load")
        return self._load.counts


class SimulatedClient:
    """Requests from a host of its own in the simulated world. Implements `Requests`, and is its process's agent."""

    def __init__(self, cluster: SimulatedCluster, host: str, timeout_s: float) -> None:
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._random = cluster.world.stream(host)
        self._process = SimulatedProcess(cluster.world, host, host, on_exit=self._on_exit)
        network = cluster.fabric.network(self._process)
        self._media = MediaDriver(network, StaticResolver(), cluster.settings.media, self._random, name=host)
        self._session: ClusterClient | None = None
        self._wanted: bytes | None = None
        self._is_sent = False
        self._answer: bytes | None = None
        self._process.start((self._media, self))

    def request(self, payload: bytes) -> bytes:
        self._wanted, self._is_sent, self._answer = payload, False, None
        self._process.post(lambda: None)
        self._cluster.world.run_until(self._is_settled, int(self._timeout_s * SECOND))
        self._cluster.require_no_failure()
        self._wanted = None
        answer = self._settled_answer()
        if answer is not None:
            return answer
        if not self._was_sent():
            raise NotSent("nothing was sent within the time-out: there is no session with the cluster")
        if self._session is not None:
            # A late answer must not be taken for that of the next request.
            session = self._session
            self._process.post(session.close)
        raise OutcomeUnknown("no answer within the time-out: the outcome of the request is unknown")

    def close(self) -> None:
        if self._session is not None:
            self._process.post(self._session.close)

    # Asked for by methods, because the agent changes them while time passes.

    def _settled_answer(self) -> bytes | None:
        return self._answer

    def _was_sent(self) -> bool:
        return self._is_sent

    def _is_settled(self) -> bool:
        ended = self._is_sent and (self._session is None or self._session.is_closed)
        return self._answer is not None or ended or bool(self._cluster.failures)

    def _on_exit(self, process: SimulatedProcess) -> None:
        if process.failure is not None:
            self._cluster.failures.append((process.name, process.failure))

    # --- the agent ---

    def do_work(self, now: Now) -> int:
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
        if self._session is None or self._session.is_closed:
            return MAX_POSITION
        deadline_ns = self._session.next_deadline_ns()
        is_waiting = self._wanted is not None and not self._is_sent
        return min(deadline_ns, self._cluster.world.now_ns + RETRY_NS) if is_waiting else deadline_ns

    def _on_message(self, timestamp: int, payload: Buffer) -> None:  # noqa: ARG002 - the cluster time is not needed
        if self._is_sent and self._answer is None:
            self._answer = bytes(payload)
