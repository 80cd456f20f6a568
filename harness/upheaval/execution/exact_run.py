"""Runs an exact script on the simulated runtime, and judges the run folder like that of any other run.

The folder also has the script, so that it can be run again.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from upheaval.checkers.promises import Promise
from upheaval.checkers.protocol.expected import sent_messages
from upheaval.errors import UnknownOutcome
from upheaval.execution.awaited_events import written
from upheaval.execution.run import ScenarioResult, read_result
from upheaval.records import Failure, RunFolder, add_failure, column_lines, read_text
from upheaval.runtime_names import SIMULATED
from upheaval.runtimes.simulated.cluster import Plan, SimulatedCluster
from upheaval.runtimes.simulated.collect import digest
from upheaval.runtimes.simulated.single_client import SingleClient
from upheaval.runtimes.simulated.world import World
from upheaval.scenario import ExactScript, ExactStep, exact_script as script, is_exact, parse_exact
from upheaval.system import ClusterSpec, is_caught_up
from upheaval_chaos.faults import MemberFaultKind
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.protocol.constants import LOG_STREAM_ID
from upheaval_node.protocol.describe import describe
from upheaval_node.protocol_trace import Observation
from upheaval_node.settings import profile_settings
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import S

STEP_TIMEOUT_S: Final = 60.0
SESSION_MESSAGE: Final = 64
"""The headers of a request in the log: frame header and session header."""
LONGEST_REQUEST: Final = 512
SHORTEST_REQUEST: Final = 128

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ExactResult:
    """How a run ended, and the messages that the script names."""

    result: ScenarioResult
    lines: tuple[str, ...]


def run_exact(
    wanted: ExactScript,
    seed: int,
    folder: Path,
    say: Say,
    follow: Callable[[Callable[[], int]], None] = lambda _: None,
) -> ExactResult:
    """Run everything from the first start to the verdict. `follow` gets the virtual clock first."""
    run = RunFolder(folder)
    performer = _Performer(wanted, seed, run)
    follow(lambda: performer.cluster.world.now_ns)
    failure: Failure | None = None
    try:
        for statement, step in wanted.steps:
            performer.do(step)
            say(statement)
        performer.finish()
    except UnknownOutcome as error:
        failure = Failure(Promise.RUN_ENDED, " ".join(str(error).split()))
    finally:
        performer.cluster.write()
        if failure is not None:
            add_failure(run, failure)
    result = ScenarioResult.of(wanted, run, runtime=SIMULATED, seed=seed, digest=performer.digest())
    lines = [line for expected in wanted.expected for line in column_lines(sent_messages(run, expected))]
    return ExactResult(result, tuple(lines))


def exact_of_run(folder: Path) -> ExactScript | None:
    """The exact script that made a run folder, or None if it has another origin."""
    path = RunFolder(folder).scenario_file
    content = read_text(path) if path.is_file() else ""
    return parse_exact(content, name=read_result(folder).scenario, where=str(path)) if is_exact(content) else None


class _Performer:
    def __init__(self, wanted: ExactScript, seed: int, run: RunFolder) -> None:
        self.cluster = SimulatedCluster(
            World(seed),
            ClusterSpec(wanted.members),
            settings=profile_settings("test", sync_level=1),
            folder=run,
            traces_protocol=True,
        )
        self.cluster.plan = Plan(demanded=wanted.promises, expected=wanted.expected, scenario=wanted.text)
        self._process, self._client = self.cluster.start_client()

    def digest(self) -> str:
        cluster = self.cluster
        history = [replace(operation, session=None).to_json() for operation in cluster.history]
        return digest(cluster.journal, history, {member.host: member.disk for member in cluster.members})

    def do(self, step: ExactStep) -> None:
        cluster = self.cluster
        match step:
            case script.Start(members, leader):
                self._start(members, leader)
            case script.Kill(members):
                for member_id in members:
                    self._kill(member_id)
            case script.ClientOpen():
                cluster.wait_until_leader(STEP_TIMEOUT_S)
                self._post(SingleClient.open)
                self._wait(lambda: self._client.is_connected, "session")
            case script.ClientFill(position):
                self._fill(position)
            case script.ClientClose():
                self._post(SingleClient.close)
            case script.WaitLog(position):
                self._wait(lambda: self._is_at(position), f"log that ends at {position}")
            case script.WaitSent():
                self._wait_sent(step)
            case script.WaitFollows(member):
                self._wait(lambda: is_caught_up(cluster.status(), member), f"member {member} that follows")

    def _start(self, members: Sequence[int], leader: int | None) -> None:
        """Start members. The appointed leader gets a slightly shorter election time-out.

        A candidate that lacks a vote waits for the whole ballot, and a voter waits equally long after its vote. With
        equal time-outs, chance would decide which of them ends first, and so whether the voter canvasses once more.
        """
        cluster = self.cluster
        settings = cluster.settings.cluster
        cluster.own_settings.clear()
        if leader is not None:
            settings = replace(settings, appointed_leader_id=leader)
            timeouts = replace(settings.timeouts, election_ns=settings.timeouts.election_ns * 9 // 10)
            own = replace(settings, timeouts=timeouts)
            cluster.own_settings[leader] = replace(cluster.settings, cluster=own)
            for other in set(cluster.member_ids) - {leader}:
                cluster.own_settings[other] = replace(cluster.settings, cluster=settings)
        for member_id in members:
            cluster.members[member_id].start()

    def _kill(self, member_id: int) -> None:
        """Kill the member at this very moment, and record that as a fault with immediate effect."""
        member, now_ns = self.cluster.members[member_id], self.cluster.world.now_ns
        names = ", ".join(sorted(member.incarnation()))
        if not names:
            raise UnknownOutcome(f"member {member_id} is not running: nothing to kill")
        member.kill()
        proof = Proof(not member.incarnation(), f"gone: {names}")
        self.cluster.faults.append(
            FaultRecord(MemberFaultKind.KILL, member.host, now_ns, now_ns, inject_proof=proof, members=(member_id,))
        )

    def finish(self) -> None:
        self.cluster.converge(STEP_TIMEOUT_S)

    def _post(self, what: Callable[[SingleClient], None]) -> None:
        self._process.post(lambda: what(self._client))

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        self.cluster.wait_until(condition, STEP_TIMEOUT_S, what)

    def _is_at(self, position: int) -> bool:
        running = [status for status in self.cluster.status() if status.alive]
        return bool(running) and all(status.append_position == status.commit_position == position for status in running)

    def _log_end(self) -> int:
        """The position after the last entry that the leader appended, recorded or not, according to its trace."""
        leader = self.cluster.leader()
        if leader is None:
            raise UnknownOutcome("no member leads")
        appended = (
            event
            for event in reversed(self._seen(leader))
            if event.event == TraceKind.SEND and event.stream_id == LOG_STREAM_ID
        )
        return next(appended).position

    def _fill(self, position: int) -> None:
        while (rest := position - self._log_end()) > 0:
            length = rest if rest <= LONGEST_REQUEST else min(LONGEST_REQUEST, rest - SHORTEST_REQUEST)
            value = "x" * (length - SESSION_MESSAGE - SingleClient.request_length(""))
            end = self._log_end() + length
            self._post(lambda client, value=value: client.request(value))  # type: ignore[misc]
            self._wait(lambda end=end: self._client.is_idle and self._is_at(end), f"log that ends at {end}")  # type: ignore[misc]
        if rest:
            raise UnknownOutcome(f"the log ends at {position - rest} already, past {position}")

    def _seen(self, member_id: int) -> deque[Observation]:
        protocol = self.cluster.protocol
        assert protocol is not None
        return protocol.of(member_id)

    def _wait_sent(self, wanted: script.WaitSent) -> None:
        """Run one event of the world at a time, so that the next step begins at the very moment of the message."""
        seen = self._seen(wanted.source)
        known = seen[-1].number if seen else 0
        incarnation = seen[-1].pid if seen else 0
        deadline_ns = self.cluster.world.now_ns + int(STEP_TIMEOUT_S * S)
        while self.cluster.world.now_ns < deadline_ns and self.cluster.world.step():
            self.cluster.require_no_failure()
            for observation in reversed(seen):
                if (observation.pid, observation.number) <= (incarnation, known):
                    break
                if observation.event == TraceKind.SEND and observation.to == wanted.target:
                    name, fields = describe(observation.payload)
                    if name == wanted.message and all(written(fields.get(k)) == value for k, value in wanted.fields):
                        return
            if seen:
                known, incarnation = seen[-1].number, seen[-1].pid
        raise UnknownOutcome(f"member {wanted.source} sent no such {wanted.message} within {STEP_TIMEOUT_S:g} s")
