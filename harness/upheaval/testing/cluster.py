"""`Cluster`: a cluster for a test or a script, on any runtime, with the faults that a test can inject."""

import os
import uuid
from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

from upheaval.accepts import Accepts
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Report, Verdict
from upheaval.cluster import Witnesses, end_run, needs_closing_snapshot, perform
from upheaval.errors import EnvironmentFault, HarnessError, UnknownOutcome, UsageError
from upheaval.operations.restore import Source, examine, with_protocol_of
from upheaval.records import (
    OWN_SYSTEM,
    STANDBY,
    TOGETHER,
    AdminCommand,
    ControlRecord,
    Converge,
    Failure,
    RunFolder,
    add_failure,
    read_schema,
    service_folder,
)
from upheaval.runtime_names import DOCKER, PROCESS, RUNTIMES, SIMULATED
from upheaval.runtimes import cluster_file
from upheaval.system import ClusterSpec, MemberStatus
from upheaval.testing.backend import Backend, RunningLoad
from upheaval.testing.backup import Backup
from upheaval.testing.calls import RETRY_WAIT_S, Client
from upheaval.testing.chaos import ActiveFault, Chaos, Whom
from upheaval.testing.drawn import drawn
from upheaval.testing.together import Ask, ask_together
from upheaval.workload import SERVICES, WORKBENCH_SERVICE, LoadCounts, WorkloadSettings
from upheaval_node.sbe import SbeSchema
from upheaval_node.suggestions import did_you_mean

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

WAIT_S: Final = 30.0
CLIENT_TIMEOUT_S: Final = 10.0


class Workload:
    """Seeded load on the shipped services, with each operation in the history. A run has one; it runs until `stop`."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._load: RunningLoad | None = None
        self._is_running = False
        self._failure = ""

    @property
    def failure(self) -> str:
        """Why it did not end in order, known once it was stopped; empty if it did."""
        return self._failure

    @property
    def counts(self) -> LoadCounts:
        """The outcomes of its operations so far."""
        return LoadCounts() if self._load is None else self._load.counts

    def start(self, *, keys: int = 8, slots: int = 8, rate: int = 200) -> None:
        """Start the load, unless it runs. `rate` is operations a second over all `slots`; 0 sets no limit."""
        if self._is_running:
            return
        if self._load is not None:
            raise UsageError("the workload of this run has ended, and a run has only one: start another cluster")
        service = self._cluster.service
        settings = WorkloadSettings(seed=self._cluster.seed, keys=keys, slots=slots, rate=rate, service=service)
        self._load = self._cluster.start_load(settings)
        self._is_running = True

    def wait_for(self, more: int, timeout_s: float = WAIT_S) -> LoadCounts:
        """Wait until that many more operations are acknowledged. Starts the load if it does not run."""
        self.start()
        assert self._load is not None
        self._load.wait_until_acknowledged(self._load.counts.ok + more, timeout_s)
        return self._load.counts

    def stop(self) -> LoadCounts:
        """Start no more operations, and settle those in flight. Raises a `HarnessError` for a load that failed."""
        if self._is_running and self._load is not None:
            self._is_running = False
            try:
                self._load.finish()
            except HarnessError as error:
                self._failure = " ".join(str(error).split())
                raise
        return self.counts


class Cluster:
    """A cluster whose members run one service. Use it in a `with` statement, or call `up` and `down`.

    `service` is a shipped service or `module:Class`. The class is looked up in the folder `source` (default: the
    current one). If that has no such module, a folder on the Python path that has it takes its place. Containers get a
    copy of the folder without the files that match `ignored`. A custom `image` contains the service. `model` judges its
    answers (`upheaval.Model`), and `schema` is the file of the SBE schema of its messages.

    `system` is what the members are, `NAME` or `NAME:VERSION`. With members of Aeron, requests go through the program
    `client` (`CLASSPATH:Class` in `source`), the command `launcher` starts each member in that folder, and `jvm` are
    options of Java.

    `runtime` is `process`, `simulated` or `docker`. `links`: real members reach each other through proxies, which
    faults of links need; simulated ones always do. `machines`: the kinds of faults, `clock-jump`, `disk-full`,
    `disk-slow`, `cpu-limit` or `memory-limit`, for which members in processes get clocks, disks and control groups of
    their own.
    `witnesses`: a custom service takes snapshots before the first fault and after each heal. `planted`: the members
    have that bug (`upheaval planted`), to check that a test detects it.

    The run leaves everything in `folder`. `restore_from` is the folder of a backup, of a standby, or of a member that
    is down; all members start with its files.
    """

    def __init__(
        self,
        service: str = WORKBENCH_SERVICE,
        source: str | os.PathLike[str] | None = None,
        *,
        runtime: str = PROCESS,
        members: int = 3,
        seed: int = 1,
        sync_level: int = 0,
        leader_disconnect_ms: int = 0,
        components: str = TOGETHER,
        image: str | None = None,
        system: str = OWN_SYSTEM,
        model: str = "",
        schema: str | os.PathLike[str] = "",
        client: str = "",
        launcher: str = "",
        jvm: str = "",
        ignored: Sequence[str] = (),
        links: bool = False,
        machines: Collection[str] = (),
        witnesses: bool = False,
        planted: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        restore_from: str | os.PathLike[str] | None = None,
    ) -> None:
        _require_possible(runtime, image, seed)
        self.runtime = runtime
        self.service = service
        self.size = members
        self.seed = seed
        source_path = None if image is not None and source is None else source_folder(service, source, system, model)
        path = Path(folder) if folder is not None else Path("runs") / f"cluster-{uuid.uuid4().hex[:12]}"
        origin = None if restore_from is None else examine(Path(restore_from))
        spec = ClusterSpec(
            members,
            components,
            sync_level=sync_level,
            leader_disconnect_ms=leader_disconnect_ms,
            service=service,
            source=str(source_path or ""),
            image=image or "",
            model=model,
            schema=os.fspath(schema),
            client=client,
            launcher=launcher,
            jvm=jvm,
            ignored=tuple(ignored),
            planted=planted,
            system=system,
        )
        if origin is not None:
            spec = with_protocol_of(origin, spec)
        make_live = partial(self._make_live, links=links, machines=machines)
        make = self._make_simulated if runtime == SIMULATED else make_live
        self._backend = make(path, spec, origin)
        self._has_ended = self._is_down = self._has_commands = False
        taken = Witnesses(self._backend.target, service, is_on=witnesses)
        self.chaos = Chaos(self._running, components=components, witnesses=taken)
        self.workload = Workload(self)
        self.backup = Backup(self._running)
        self.standby = Backup(self._running, f"{STANDBY}-0")
        self._schema_file = spec.schema
        self._clients: list[Client] = []
        self._report: Report | None = None
        self._clients_failure = ""

    def _make_live(
        self, folder: Path, spec: ClusterSpec, origin: Source | None, *, links: bool, machines: Collection[str]
    ) -> Backend:
        from upheaval.testing.live import LiveBackend

        try:
            return LiveBackend(
                self.runtime, folder, spec, seed=self.seed, links=links, machines=machines, origin=origin
            )
        except EnvironmentFault as error:
            if self.runtime != DOCKER:
                raise
            others = " and ".join(name for name in RUNTIMES if name != DOCKER)
            raise EnvironmentFault(f"{error} (without containers: runtimes {others})") from error

    def _make_simulated(self, folder: Path, spec: ClusterSpec, origin: Source | None) -> Backend:
        from upheaval.testing.simulation import SimulatedBackend

        cluster_file.check(spec.made(""), SIMULATED)
        cluster_file.require_usable(folder)
        return SimulatedBackend(RunFolder(folder), spec, seed=self.seed, origin=origin)

    @cached_property
    def schema(self) -> SbeSchema:
        """The SBE schema of the service's messages: `cluster.schema.NewOrder(price=5)` is a request.

        Raises `UsageError` for a cluster without a schema.
        """
        if not self._schema_file:
            raise UsageError("this cluster has no schema: give schema=, or upheaval_schema in the ini file of pytest")
        return read_schema(self._schema_file)

    # --- life ---

    @property
    def run(self) -> RunFolder:
        """The run folder."""
        return self._backend.run

    def up(self, timeout_s: float = WAIT_S) -> int:
        """Start all members and wait for a leader that serves; returns its member id."""
        return self._running().target.up(timeout_s)

    def down(self) -> None:
        """End load, clients and members; the run folder stays. An ended cluster cannot be started again."""
        if self._is_down:
            return
        self._has_ended = True
        with ExitStack() as stack:
            # From the last to the first, each one even if another one fails.
            stack.callback(self._record_load_failure)
            stack.callback(self._end_members)
            stack.callback(self.chaos.give_up)
            for client in self._clients:
                stack.callback(client.close)
            # Before they end: what happens to them afterwards fails no request.
            self._clients_failure = self._clients_failure or self._backend.clients_failure
            self.workload.stop()

    def _end_members(self) -> None:
        self._backend.down()
        # Until then, as after an interrupt, another `down` tries again.
        self._is_down = True

    def _record_load_failure(self) -> None:
        if self._is_down and self.load_failure:
            add_failure(self.run, Failure(Promise.RUN_ENDED, self.load_failure))

    @property
    def load_failure(self) -> str:
        """Why the workload did not end in order, or why no client could go on; empty if they did. Known once the
        cluster is down.
        """
        return self.workload.failure or self._clients_failure

    def _running(self) -> Backend:
        """The backend, for whatever needs members that run. Raises `UsageError` once the cluster has ended: a verdict
        covers a whole run, and nothing would end what a later start leaves.
        """
        if self._has_ended:
            raise UsageError("this cluster has ended, by verify, end or down: make another one")
        return self._backend

    def __enter__(self) -> Self:
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    # --- what it is and does ---

    @property
    def member_ids(self) -> list[int]:
        """The ids of all members, up or down."""
        return list(range(self.size))

    def status(self) -> list[MemberStatus]:
        """The current status of each member, by its own account."""
        return self._backend.target.status()

    def leader(self) -> int | None:
        """The member id of the current leader, if one serves."""
        return self._backend.target.leader()

    def wait_until_leader(self, timeout_s: float = WAIT_S, *, other_than: int | None = None) -> int:
        """Wait for a leader that serves and return its member id. Raises `UnknownOutcome` when the time is over."""
        return self._running().target.wait_until_leader(timeout_s, other_than=other_than)

    def wait_until_caught_up(self, member_id: int, timeout_s: float = WAIT_S) -> None:
        """Wait until a member follows the leader, or leads."""
        self._running().target.wait_until_caught_up(self._known(member_id), timeout_s)

    def expect_end(self, member_id: int) -> frozenset[str]:
        """Allow the running processes of a member to end in any way. Returns their names for `wait_until_ended`."""
        return self._backend.expect_end(self._known(member_id))

    def wait_until_ended(self, member_id: int, names: frozenset[str], timeout_s: float = WAIT_S) -> list[int]:
        """Wait until the processes that `expect_end` returned have ended. Returns their exit statuses; 0 is an orderly
        end.
        """
        return self._backend.wait_until_ended(self._known(member_id), names, timeout_s)

    def client(self, timeout_s: float = CLIENT_TIMEOUT_S, accepts: Accepts | None = None) -> Client:
        """A client for requests to a custom service. The history records each request; the cluster closes the client.

        `accepts` is the default for its requests.
        """
        client = self._running().client(timeout_s, accepts)
        self._clients.append(client)
        return client

    def drawn(self, strategy: "SearchStrategy[T]", count: int) -> list[T]:
        """Draw `count` values of a hypothesis strategy by the seed of this cluster. Values may repeat.

        Raises `UsageError` where hypothesis is not installed.
        """
        return drawn(strategy, count, self.seed)

    def together(
        self,
        *asks: tuple[Client, bytes],
        accepts: Accepts | None = None,
        retries: int = 0,
        retry_wait_s: float = RETRY_WAIT_S,
    ) -> list[bytes]:
        """Send requests of several clients at once. Returns the answers in the order of the requests.

        `accepts`, `retries` and errors are those of `Client.request`. An error is raised after all requests have ended.
        """
        return ask_together(
            [Ask(client, payload, accepts) for client, payload in asks],
            self._running().ask_round,
            retries=retries,
            retry_wait_s=retry_wait_s,
        )

    def start_load(self, settings: WorkloadSettings) -> RunningLoad:
        """Start the load that `workload` controls.

        Raises `UsageError` for a service that does not know its operations.
        """
        if self.service not in SERVICES:
            raise UsageError(
                f"the workload drives the services {', '.join(SERVICES)}, this cluster runs {self.service}: "
                "use cluster.client()"
            )
        return self._running().load(settings)

    # --- commands of an operator, through the control toggle ---

    def snapshot(self, timeout_s: float = WAIT_S) -> int:
        """Order a snapshot, wait until all running members have it, and return its log position."""
        self._perform("snapshot", timeout_s)
        return max(status.snapshot_position for status in self._running().target.control_statuses())

    def standby_snapshot(self, timeout_s: float = WAIT_S) -> int:
        """Order a snapshot by the standby, wait until all running members know of it, and return its log position."""
        self._perform(AdminCommand.STANDBY_SNAPSHOT, timeout_s)
        return max(status.standby_position for status in self._running().target.control_statuses())

    def replicate_standby_snapshot(self, timeout_s: float = WAIT_S) -> None:
        """Order all running members to fetch the latest snapshot of the standby, and wait until each has it."""
        self._perform(AdminCommand.REPLICATE_STANDBY_SNAPSHOT, timeout_s)

    def suspend(self, timeout_s: float = WAIT_S) -> None:
        """Suspend the cluster: it accepts no requests until `resume_cluster`."""
        self._perform("suspend", timeout_s)

    def resume_cluster(self, timeout_s: float = WAIT_S) -> None:
        """Resume a suspended cluster. (`resume` is for paused members.)"""
        self._perform("resume", timeout_s)

    def shutdown(self, timeout_s: float = WAIT_S) -> None:
        """Order a snapshot and the end of the cluster, and wait until all members have exited with status 0.

        `start_all` starts them again.
        """
        self._perform("shutdown", timeout_s)

    def abort(self, timeout_s: float = WAIT_S) -> None:
        """As `shutdown`, without a snapshot."""
        self._perform("abort", timeout_s)

    def restart_from_snapshot(self, timeout_s: float = WAIT_S) -> int:
        """Order a snapshot and the end of the cluster, then start all members from it. Returns the id of the new
        leader.
        """
        self.shutdown(timeout_s)
        return self.start_all(timeout_s)

    def start_all(self, timeout_s: float = WAIT_S) -> int:
        """Start all members that are down, and wait until all follow one leader. Returns its member id."""
        return self.chaos.start_by(lambda: self._perform("start", timeout_s)).leader

    # --- faults: the common ones, by the words of `chaos` ---

    def kill(self, who: Whom, component: str | None = None) -> ActiveFault:
        """Kill members, or one component of each (SIGKILL)."""
        return self.chaos.kill(who, component)

    def stop(self, who: Whom) -> ActiveFault:
        """Stop members in order (SIGTERM)."""
        return self.chaos.stop(who)

    def start(self, member_id: int) -> None:
        """Start what is down of a member. It joins by itself."""
        self.chaos.start(member_id)

    def pause(self, who: Whom) -> ActiveFault:
        """Pause members (SIGSTOP): they keep their connections and answer nothing."""
        return self.chaos.pause(who)

    def resume(self, member_id: int) -> None:
        """Resume a paused member."""
        self.chaos.resume(member_id)

    def partition(self, one: Whom, other: Whom) -> ActiveFault:
        """Cut the links between two groups of members."""
        return self.chaos.partition(one, other)

    def heal(self) -> None:
        """Heal all faults, start all members that are down, and wait until all follow one leader."""
        self.chaos.heal()

    # --- the verdict ---

    def converge(self, timeout_s: float = WAIT_S) -> Converge:
        """Wait until all members are at one position, and record it. The load must be over."""
        return self._running().target.converge(timeout_s)

    def end(self) -> None:
        """End the run so that it can be judged: stop the load, heal, converge, and take the cluster down.

        Raises `UnknownOutcome` for a cluster that does not heal, which stays up, and for a load that failed: then the
        run has ended all the same, and records that.
        """
        if not self._has_ended:
            try:
                self.workload.stop()
            except UnknownOutcome:
                with suppress(UnknownOutcome):
                    self._come_to_rest()
                self.down()
                raise
            self._come_to_rest()
        self.down()

    def _come_to_rest(self) -> None:
        self.heal()
        needs = needs_closing_snapshot(self.service, has_commands=self._has_commands)
        end_run(self._running().target, takes_snapshot=needs)

    def verify(self) -> Report:
        """`end` the run and judge it: check every promise."""
        self.end()
        self._report = replace(verify_run(self.run.path), run=str(self.run.path))
        return self._report

    @property
    def report(self) -> Report | None:
        """The last result of `verify`; None before it."""
        return self._report

    def assert_valid(self) -> Report:
        """`verify`, and raise `AssertionError` with the findings, the worst first, unless the run is valid."""
        __tracebackhide__ = True
        report = self.verify()
        if report.verdict is not Verdict.VALID:
            raise AssertionError(str(report))
        return report

    def _perform(self, command: str, timeout_s: float) -> ControlRecord:
        self._has_commands = True
        return perform(self._running().target, command, timeout_s)

    def _known(self, member_id: int) -> int:
        if not 0 <= member_id < self.size:
            raise UsageError(f"unknown member {member_id}: this cluster has members 0 to {self.size - 1}")
        return member_id


def source_folder(
    service: str, source: str | os.PathLike[str] | None, system: str = OWN_SYSTEM, model: str = ""
) -> Path | None:
    """The folder of a service's code and model; None for a shipped service, which is installed.

    Raises `UsageError` if the named folder does not exist.
    """
    if source is None and ":" not in service:
        return None
    named = Path.cwd() if source is None else Path(source).absolute()
    if not named.is_dir():
        raise UsageError(f"source {named} is not a folder: give the folder that holds the service's module")
    return service_folder(service, named, system, model)


def _require_possible(runtime: str, image: str | None, seed: int) -> None:
    if runtime not in RUNTIMES:
        hint = did_you_mean(runtime, RUNTIMES)
        raise UsageError(f"runtime {runtime!r}: use one of {', '.join(RUNTIMES)}{hint}")
    if image is not None and runtime != DOCKER:
        raise UsageError(f"an image is for containers: use runtime {DOCKER}")
    if seed < 0:
        raise UsageError(f"seed {seed}: a seed is a number from 0")
