"""Runs a scenario on a stage, and judges the run folder.

The folder also has the scenario and the result, so that the run can be replayed.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from upheaval.checkers.judge import verify_run
from upheaval.checkers.liveness.unexplained import has_failed_member
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Report, Verdict
from upheaval.cluster import AskedCommands, Witnesses, companion_control, end_run, perform
from upheaval.errors import EnvironmentFault, HarnessError, UnknownOutcome, UsageError
from upheaval.execution.awaited_events import AwaitedEvent, TracedEvents
from upheaval.execution.stage import Stage, Steered
from upheaval.records import (
    AdminCommand,
    ControlRecord,
    Failure,
    RunFolder,
    TraceEvent,
    add_failure,
    jsonfields,
    read_made_by_test,
    write_atomically,
)
from upheaval.runtimes.simulated.errors import PromiseBroken
from upheaval.scenario import (
    AskFor,
    Begin,
    End,
    ExactScript,
    GiveCommand,
    Heal,
    Inject,
    KeepCompanion,
    OwnCode,
    Scenario,
    Step,
    WaitCaughtUp,
    WaitCompanion,
    WaitLeader,
    WaitMoment,
    WaitOperations,
    WaitSeconds,
    WaitSent,
    WaitState,
    WaitTime,
    parse_scenario,
)
from upheaval_chaos.driver import FaultDriver
from upheaval_chaos.exit_status import CommandStatus
from upheaval_chaos.faults import Fault, roster_of
from upheaval_chaos.record import Proof
from upheaval_node.types import MS, S

RESULT_FILE: Final = "result.json"
STEP_TIMEOUT_S: Final = 60.0
LOOK_PAUSE_NS: Final = 10 * MS
"""The shortest pause between two looks for the effect of a command."""
PAUSE_PER_LOOK: Final = 10
"""A pause is as many times as long as the look before it: a look at containers costs them time."""
_ACTIONS: Final = (AskFor, Begin, GiveCommand, Inject, KeepCompanion)
"""Steps after which the state of the cluster proves nothing about an earlier command."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """The result of a scenario. `digest` is None if executions do not repeat, `planted` without a planted bug."""

    scenario: str
    runtime: str
    seed: int
    report: Report
    digest: str | None
    planted: str | None = None
    own: OwnCode | None = None

    @classmethod
    def of(
        cls,
        scenario: Scenario | ExactScript,
        run: RunFolder,
        *,
        runtime: str,
        seed: int,
        digest: str | None,
        planted: str | None = None,
        own: OwnCode | None = None,
    ) -> "ScenarioResult":
        """Judge the run folder, as `upheaval verify` does, and add the result to it."""
        result = cls(scenario.name, runtime, seed, verify_run(run.path), digest, planted, own)
        write_atomically(run.path / RESULT_FILE, result.to_json())
        return result

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all promises."""
        return self.report.verdict

    def to_json(self) -> str:
        """The JSON in the run folder, which `--json` prints too."""
        fields = {
            "scenario": self.scenario,
            "runtime": self.runtime,
            "seed": self.seed,
            "planted": self.planted,
            "own": None if self.own is None else asdict(self.own),
            **self.report.to_fields(),
            "digest": self.digest,
        }
        return jsonfields.to_json(fields) + "\n"


@dataclass(frozen=True, slots=True)
class StoredResult:
    """The fields read back from a result file."""

    scenario: str
    runtime: str
    seed: int
    digest: str | None = None
    planted: str | None = None
    own: OwnCode | None = None


def run_scenario(
    scenario: Scenario,
    stage: Stage,
    *,
    runtime: str,
    seed: int,
    say: Say,
    planted: str | None = None,
    own: OwnCode | None = None,
) -> ScenarioResult:
    """Run everything from the start of the cluster to the verdict. Nothing of the cluster remains, whatever happens.

    A cluster that does not start because a member failed in an election is judged like any other.
    """
    try:
        try:
            play(scenario, stage, say)
        finally:
            stage.close()
    except PromiseBroken as error:
        add_failure(stage.run, error.failure)
    except HarnessError as error:
        if error.exit_status != CommandStatus.UNKNOWN and not _is_of_member(error, stage.run):
            raise
        add_failure(stage.run, Failure(Promise.RUN_ENDED, " ".join(str(error).split())))
    return ScenarioResult.of(
        scenario, stage.run, runtime=runtime, seed=seed, digest=stage.digest(), planted=planted, own=own
    )


def _is_of_member(error: HarnessError, run: RunFolder) -> bool:
    """Whether the run folder shows that a member failed, and not its machine."""
    return isinstance(error, EnvironmentFault) and has_failed_member(run)


def read_origin(folder: Path) -> tuple[Scenario, StoredResult]:
    """The scenario that made a run folder, and its result. Raises `UsageError` for a folder that no scenario made."""
    scenario_file, result_file = RunFolder(folder).scenario_file, folder / RESULT_FILE
    RunFolder(folder).require_folder()
    test = read_made_by_test(folder)
    if test is not None:
        raise UsageError(f"a pytest test made {folder}: replay it by `{test}`")
    if not scenario_file.is_file() or not result_file.is_file():
        raise UsageError(f"{folder} is not a run of a scenario: it lacks {scenario_file.name} or {RESULT_FILE}")
    stored = read_result(folder)
    return parse_scenario(jsonfields.read_text(scenario_file), name=stored.scenario, where=str(scenario_file)), stored


def read_result(folder: Path) -> StoredResult:
    """The result of a scenario, exact or not. Raises `UsageError` for a malformed file."""
    path = folder / RESULT_FILE
    stored = jsonfields.read_file(StoredResult, path)
    # A new run folder is named after the scenario.
    if stored.scenario in ("", ".", "..") or "/" in stored.scenario or "\0" in stored.scenario:
        raise UsageError(f"{path}: field 'scenario' must be the name of a scenario, not {stored.scenario!r}")
    return stored


def play(scenario: Scenario, stage: Stage, say: Say, driver: FaultDriver | None = None) -> None:
    """Play the steps from the start of the cluster to its converge phase. The caller may pass its own driver."""
    stage.open(say)
    target = stage.target
    driver = driver or FaultDriver(target, stage.record_fault)
    witnesses = Witnesses(target, scenario.cluster.service, is_on=scenario.witnesses)
    try:
        begin_ns = target.now_ns()
        driver.note_event(begin_ns)
        say(f"member {target.leader()} leads; load begins")
        asked = AskedCommands(target)
        for step in scenario.steps:
            _take_witness_before(step, driver, witnesses)
            if isinstance(step, WaitTime):
                _wait_time(target, begin_ns + step.since_load_ns, asked)
            elif isinstance(step, AskFor) and step.command is not AdminCommand.START:
                asked.ask(step.command, has_faults=bool(driver.active))
            else:
                if step == GiveCommand(AdminCommand.START):
                    asked.wait_for_end(STEP_TIMEOUT_S)
                asked.look()
                if isinstance(step, _ACTIONS):
                    asked.forget()
                _do(step, target, driver, say)
            if isinstance(step, Heal | End):
                witnesses.note_heal()
        asked.look()
        driver.heal_all()
        _wait_leader(target, ())
        counts = stage.end_load()
        say(f"load has ended: {counts.ok} acknowledged, {counts.unknown} unknown; converging")
        end_run(target, takes_snapshot=scenario.has_closing_snapshot, say=say)
    finally:
        driver.give_up()


def _wait_time(target: Steered, until_ns: int, asked: AskedCommands) -> None:
    """Let time pass, in slices while a command waits for its effect: its record has the time of the effect."""
    pause_ns = LOOK_PAUSE_NS
    while asked.is_waiting and (left_ns := until_ns - target.now_ns()) > 0:
        target.let_pass(min(left_ns, pause_ns) / S)
        begin_ns = target.now_ns()
        asked.look()
        pause_ns = max(LOOK_PAUSE_NS, PAUSE_PER_LOOK * (target.now_ns() - begin_ns))
    target.let_pass(max(until_ns - target.now_ns(), 0) / S)


def _take_witness_before(step: Step, driver: FaultDriver, witnesses: Witnesses) -> None:
    """Take a witness if due: before the first fault, and after it whenever no fault is active."""
    if not driver.active and (driver.begun or isinstance(step, Inject | Begin)):
        witnesses.take_if_due()


def _do(step: Step, target: Steered, driver: FaultDriver, say: Say) -> None:
    match step:
        case WaitOperations(count):
            goal = target.acknowledged() + count
            target.wait_until(
                lambda: target.acknowledged() >= goal, STEP_TIMEOUT_S, f"{count} more acknowledged operations"
            )
            say(f"{target.acknowledged()} operations acknowledged")
        case WaitLeader(other_than):
            _wait_leader(target, driver.victims(other_than) if other_than else ())
            say(f"member {target.leader()} leads")
        case WaitCaughtUp(fault):
            victims = driver.victims(fault)
            ids = ", ".join(map(str, victims))
            target.wait_until(
                lambda: all(map(target.has_caught_up, victims)), STEP_TIMEOUT_S, f"catch-up of member {ids}"
            )
            say(f"member {ids} has caught up")
        case WaitCompanion(name):
            status = companion_control.wait_until_caught_up(target, name, STEP_TIMEOUT_S)
            say(f"{status.name} has the log up to position {status.live_log_position}")
        case WaitMoment(operations, after_ms):
            begin_ns = driver.last_event_ns + after_ms * MS
            target.wait_until(
                lambda: target.acknowledged() >= operations and target.now_ns() >= begin_ns,
                STEP_TIMEOUT_S + after_ms / 1000,
                f"{operations} acknowledged operations in all",
            )
            say(f"{target.acknowledged()} operations acknowledged")
        case WaitSeconds(seconds):
            target.let_pass(seconds)
        case WaitSent():
            _wait_event(step, target, driver, say)
        case WaitState(at_most_ns=at_most_ns):
            _wait_event(step, target, driver, say, at_most_ns)
        case GiveCommand(command):
            driver.note_event(target.now_ns())
            say(f"{command}: {_perform(target, command, driver).proof}")
        case KeepCompanion(action):
            driver.note_event(target.now_ns())
            say(f"{step.config.kind} {action}: {_keep_companion(target, step).proof}")
        case AskFor():
            _start_members(target, driver)
        case Begin(name, fault, is_drawn=True):
            _begin(name, fault, driver, say)
        case Begin(name, fault):
            driver.begin(name, fault, is_drawn=False)
            say(f"fault {name!r} has begun")
        case End(name):
            driver.end(name)
        case Inject(name, fault):
            _require_proof(say, f"fault {name!r}", driver.inject(name, fault))
        case Heal(name):
            _require_proof(say, f"fault {name!r} healed", driver.heal(name))


def _wait_event(
    step: WaitSent | WaitState, target: Steered, driver: FaultDriver, say: Say, at_most_ns: int = 0
) -> None:
    wanted = AwaitedEvent(step, roster_of(target), driver.victims, driver.last_changed_ns)
    traced = TracedEvents(target.added_lines())
    meant: list[TraceEvent] = []
    begin_ns = target.now_ns()

    def is_over() -> bool:
        meant.extend(event for event in traced.more() if wanted.is_meant(event))
        return bool(meant) or 0 < at_most_ns <= target.now_ns() - begin_ns

    target.wait_until(is_over, STEP_TIMEOUT_S, str(wanted))
    first = min(meant, key=lambda event: event.ns, default=None)
    if first is not None:
        driver.note_event(first.ns)
    if isinstance(step, WaitState) and step.name:
        driver.name_members(step.name, () if first is None else (first.number("member"),))
    say(wanted.happened if meant else f"no {wanted} within {at_most_ns / S:g} s")


def _perform(target: Steered, command: str, driver: FaultDriver) -> ControlRecord:
    def act() -> ControlRecord:
        return perform(target, command, STEP_TIMEOUT_S)

    return driver.start(target.member_ids, act) if command == AdminCommand.START else act()


def _start_members(target: Steered, driver: FaultDriver) -> None:
    """Start the members that no fault holds down."""
    for member_id in target.member_ids:
        if not target.node(member_id).incarnation() and not driver.holds_down(member_id):
            driver.start([member_id], target.node(member_id).start)


def _begin(name: str, fault: Fault, driver: FaultDriver, say: Say) -> None:
    try:
        driver.begin(name, fault)
    except UnknownOutcome as error:
        say(f"fault {name!r} is left out: {error}")


def _keep_companion(target: Steered, step: KeepCompanion) -> ControlRecord:
    if step.action == companion_control.START:
        return companion_control.start(target, step.config, STEP_TIMEOUT_S)
    return companion_control.end(target, step.name, step.action)


def _require_proof(say: Say, what: str, proof: Proof) -> None:
    """A fault without a proof makes the run worthless, so it ends here."""
    if not proof.holds:
        raise UnknownOutcome(f"{what}, {proof}")
    say(f"{what}: {proof}")


def _wait_leader(target: Steered, other_than: Sequence[int]) -> None:
    others = f" other than member {', '.join(map(str, other_than))}" if other_than else ""
    target.wait_until(lambda: target.leader() not in (None, *other_than), STEP_TIMEOUT_S, f"leader{others}")
