"""Runs one seed of a campaign: cluster, load, snapshots and faults as drawn, invariants during the run, verdict at the
end.

The outcome is a plain value that fits in one line of JSON.
"""

import contextlib
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from upheaval.campaign.as_drawn import prove_variations
from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.goals.table import reached
from upheaval.campaign.goals.traced_run import TracedRun
from upheaval.campaign.searches import SEARCHES, UNIFORM
from upheaval.campaign.seed_lines import SEED_FILE, Fate, FaultCounts, fields_of
from upheaval.campaign.swarm import Swarm, draw_swarm
from upheaval.campaign.swarm_tape import read_swarm, tape_of
from upheaval.campaign.tape import Fields
from upheaval.campaign.variations import Variation
from upheaval.checkers.judge import verify_folder, verify_run
from upheaval.checkers.promises import AnyPromise, Promise
from upheaval.checkers.signature import Signature
from upheaval.checkers.verdict import Report, Verdict
from upheaval.errors import HarnessError, UsageError
from upheaval.execution.invariants import Invariants
from upheaval.execution.run import play
from upheaval.execution.simulated import LOAD_END_S, SimulatedStage
from upheaval.load.own import load_maker
from upheaval.operations.restore import examine
from upheaval.operations.simulated_restore import restore_into
from upheaval.records import (
    ENDINGS,
    OWN_SYSTEM,
    AdminCommand,
    ConnectAnswer,
    Failure,
    Json,
    Outcome,
    RunFolder,
    add_failure,
    jsonfields,
    write_atomically,
)
from upheaval.runtime_names import SIMULATED
from upheaval.runtimes.simulated.delivery import DeliveryPriorities
from upheaval.runtimes.simulated.errors import PromiseBroken
from upheaval.runtimes.simulated.hosts import channels_of
from upheaval.runtimes.simulated.world import START_NS, FreshTiming
from upheaval.scenario import OwnCode, Scenario
from upheaval.workload import Load, LoadCounts
from upheaval.workload.other_clients import OtherClients
from upheaval_chaos.driver import FaultDriver
from upheaval_chaos.planted.bug import PlantedBug
from upheaval_chaos.record import Proof
from upheaval_node import __version__
from upheaval_node.cluster.rules import OWN
from upheaval_node.types import S

SECONDS_MIN: Final = 60
OPERATIONS_MIN: Final = 500
MORE_LOAD_S: Final = 30.0
"""For how long, at most, the load of a seed goes on to reach that many operations; about one seed in 50 needs it."""
MORE_LOAD_STEP_S: Final = 0.5
RESTORED: Final = "restored"
"""The run folder of a restored cluster, inside the run folder of its seed."""
FAULTS_MIN: Final = 3
IDLE_TIMEOUTS: Final = 2
"""For how many session time-outs an idle client is idle."""
TAPE_FILE: Final = "tape.json"
"""The file with the choices that made the cluster, its load and its faults: it can be replayed and edited."""


Keep = Callable[[Path], Path | None]
"""Moves the run folder of a failed seed, and returns its new place if it is kept."""


def finding_line(verdict: Verdict, promise: AnyPromise, evidence: str) -> str:
    """A finding in the line of its seed."""
    return f"{verdict.text}, {promise.sentence}: {' '.join(evidence.split())}"


@dataclass(slots=True)
class SeedOutcome:
    """The outcome of one seed. `promise` (its id) and `detail` come from the worst finding; `findings` are all that are
    not valid. `verdict` is valid when there are none.
    """

    swarm: Swarm
    verdict: str = Verdict.VALID.text
    promise: str = ""
    detail: str = ""
    findings: list[str] = field(default_factory=list)
    fingerprints: list[Fingerprint] = field(default_factory=list)
    """The fingerprints of those findings, the worst first."""
    gaps: list[str] = field(default_factory=list)
    """A line for each promise that could not be judged, although the run gives occasion."""
    seconds: float = 0.0
    """Simulated seconds."""
    processor_seconds: float = 0.0
    operations: int = 0
    elections: int = 0
    """The number of terms with a leader, except the first."""
    snapshots: int = 0
    """The requested snapshots that the leader took."""
    endings: int = 0
    """The number of admin commands to end the whole cluster that a leader accepted."""
    faults: FaultCounts = field(default_factory=dict)
    variations: dict[str, Proof] = field(default_factory=dict)
    """The variations that were drawn for the cluster, with the evidence for each."""
    moves: dict[str, int] = field(default_factory=dict)
    """The moves of elections, by `OLD>NEW`."""
    goals: tuple[str, ...] = ()
    """The names of the goals that it reached."""
    folder: str = ""
    """Its run folder, if that was kept."""
    planted: str | None = None
    """The planted bug of its members."""

    @property
    def system(self) -> str:
        """The system that was tested, with what makes it another one than our node: rules of Aeron, a planted bug."""
        rules = [] if self.swarm.compatibility == OWN else [f"compatibility={self.swarm.compatibility}"]
        return " ".join([OWN_SYSTEM, *rules, *([] if self.planted is None else [f"planted={self.planted}"])])

    @property
    def is_valid(self) -> bool:
        """Whether no promise was broken."""
        return self.verdict == Verdict.VALID.text

    def finds(self, bug: PlantedBug) -> list[str]:
        """The broken promises that must find the bug, the worst first."""
        return [one.promise for one in self.fingerprints if one.is_broken and bug.is_found_by(one.promise)]

    @property
    def is_inconclusive(self) -> bool:
        """Whether it shows too little to count."""
        return (
            self.seconds < SECONDS_MIN
            or self.operations < OPERATIONS_MIN
            or self.elections < 1
            or sum(counts[Fate.PROVED] for counts in self.faults.values()) < FAULTS_MIN
        )

    def variation_fates(self) -> Iterator[tuple[str, Fate]]:
        """The fate of each drawn variation. Leaves out those of a run that could not be judged."""
        for kind in self.swarm.variations.drawn():
            proof = self.variations.get(kind)
            undone = Fate.LEFT_OUT if proof is None else Fate.UNSEEN
            yield kind, Fate.PROVED if proof is not None and proof.holds else undone

    def to_fields(self) -> dict[str, Json]:
        """The fields of a JSON line, including the cluster's properties."""
        return {
            **self.swarm.to_fields(),
            "runtime": SIMULATED,
            "system": self.system,
            "version": __version__,
            "verdict": self.verdict,
            "promise": self.promise,
            "detail": self.detail,
            "findings": list(self.findings),
            "fingerprints": [fingerprint.to_fields() for fingerprint in self.fingerprints],
            "gaps": list(self.gaps),
            "inconclusive": self.is_inconclusive,
            "simulated_seconds": round(self.seconds, 3),
            # Not rounded: a lake knows a campaign by its first line, and nothing else differs between two nights.
            "processor_seconds": self.processor_seconds,
            "operations": self.operations,
            "elections": self.elections,
            "snapshots": self.snapshots,
            "endings": self.endings,
            "fault_counts": fields_of(self.faults),
            "seen_variations": {kind: asdict(proof) for kind, proof in self.variations.items()},
            "moves": dict(self.moves),
            "goals": list(self.goals),
            "folder": self.folder,
        }


class _Stage(SimulatedStage):
    """A campaign's cluster that counts the commands it accepted."""

    def __init__(self, swarm: Swarm, folder: Path, planted: str | None, *, traces_protocol: bool) -> None:
        settings = swarm.settings()
        super().__init__(
            swarm.scenario(),
            swarm.seed,
            folder,
            planted,
            settings=settings,
            gate=swarm.gate(),
            traces_protocol=traces_protocol,
            writes_scenario=False,
            make_load=Load if swarm.own is None else load_maker(swarm.own.user, swarm.own.source),
        )
        self.taken: Counter[str] = Counter()
        self._is_whole = swarm.seconds >= SECONDS_MIN
        self._other_kinds = swarm.variations.other_clients
        self.others: OtherClients | None = None
        """The clients beside those of the load."""
        if swarm.delivery is not None:
            DeliveryPriorities(channels_of(self.cluster), swarm.delivery, self.cluster.world.stream("delivery"))
        for member_id, skew_ms in enumerate(swarm.skews_ms):
            self.cluster.move_clock(member_id, skew_ms)

    def open(self, say: Callable[[str], None]) -> None:
        super().open(say)
        if self.cluster.gate is not None:
            self.cluster.start_stranger()
        if self._other_kinds:
            idle_ns = IDLE_TIMEOUTS * self.cluster.settings.cluster.timeouts.session_ns
            self.others = self.cluster.start_other_clients(self._other_kinds, idle_ns)

    def end_load(self) -> LoadCounts:
        """Go on with a load that faults interrupted for so long that its seed would show too little."""
        end_ns = self.now_ns() + int(MORE_LOAD_S * S) if self._is_whole else 0
        while self.acknowledged() < OPERATIONS_MIN and self.now_ns() < end_ns:
            self.let_pass(MORE_LOAD_STEP_S)
        others = self.others
        if others is not None:
            others.stop()
            self.wait_until(lambda: others.is_idle, LOAD_END_S, "end of the other clients")
        return super().end_load()

    def give(self, member_id: int, command: str) -> str:
        refusal = super().give(member_id, command)
        if not refusal:
            self.taken[command] += 1
        if not refusal and command in ENDINGS:
            # If a fault keeps the quorum away, services never reach the end: their member gives up.
            for member in self.cluster.members:
                member.expected_ends |= member.incarnation()
        return refusal


class SeedRun:
    """One seed, from the start of its cluster to its verdict."""

    def __init__(
        self, swarm: Swarm, folder: Path, planted: str | None = None, *, traces_protocol: bool = False
    ) -> None:
        self.swarm = swarm
        self.stage = _Stage(swarm, folder, planted, traces_protocol=traces_protocol)
        self.cluster = self.stage.cluster
        self.driver = FaultDriver(self.stage, self.stage.record_fault)
        self.invariants = Invariants(self.cluster)
        self.outcome = SeedOutcome(swarm, planted=planted)
        self.report: Report | None = None
        """What its folder was judged to be; None when it could not be."""

    def run(self) -> SeedOutcome:
        """Run the seed. A failure of the run is an outcome, never an exception."""
        begin = time.process_time()
        outcome, cluster = self.outcome, self.cluster
        try:
            play(self.swarm.scenario(), self.stage, lambda _: None, self.driver)
            self.stage.close()
        except PromiseBroken as error:
            self._end_with(Verdict.INVALID, error.failure, error.signature)
        except HarnessError as error:
            self._end_with(Verdict.UNKNOWN, Failure(Promise.RUN_ENDED, " ".join(str(error).split())))
        except Exception as defect:
            defect.add_note(f"in seed {self.swarm.seed} of a campaign")
            raise
        self._judge()
        outcome.seconds = (cluster.world.now_ns - START_NS) / S
        outcome.operations = sum(operation.outcome is Outcome.OK for operation in cluster.history)
        outcome.elections = max(self.invariants.terms - 1, 0)
        outcome.snapshots = self.stage.taken[AdminCommand.SNAPSHOT]
        outcome.endings = sum(self.stage.taken[ending] for ending in ENDINGS)
        outcome.faults = self._fault_counts()
        outcome.processor_seconds = time.process_time() - begin
        return outcome

    def _fault_counts(self) -> FaultCounts:
        counts: FaultCounts = {}
        proved = {fault.name for fault in self.cluster.faults if fault.is_proved}
        for name, planned in self.swarm.named_faults():
            undone = Fate.UNSEEN if name in self.driver.begun else Fate.LEFT_OUT
            fate = Fate.PROVED if name in proved else undone
            counts.setdefault(planned.kind, Counter()).update((Fate.PLANNED, fate))
        return counts

    # --- the verdict ---

    def _end_with(self, verdict: Verdict, failure: Failure, signature: Signature | None = None) -> None:
        """Record the failure in the folder, too: nothing else there may show it."""
        self._fail(verdict, Promise(failure.promise), failure.detail, signature)
        self.stage.close()
        add_failure(self.cluster.run, failure)

    def _judge(self) -> None:
        """The worst finding in the run's folder, unless a worse one was found before."""
        run = RunFolder(self.cluster.run.path, at_rest=True)
        if self.outcome.is_valid:
            self._prove_variations(run)
        self._note_goals(run)
        try:
            self.report = verify_folder(run)
        except HarnessError as error:
            self._fail(Verdict.UNKNOWN, Promise.FOLDER_JUDGED, str(error))
            return
        self.outcome.gaps = self.report.gaps
        for finding in self.report.findings:
            self._fail(finding.verdict, finding.promise, finding.evidence, finding.signature)
        companion = self.swarm.variations.companion
        is_restored = companion is not None and companion.is_restored and self.outcome.is_valid
        if companion is not None and is_restored and not self._restore(companion.config.name):
            # The restore recorded its failure.
            self.report = verify_folder(run)

    def _note_goals(self, run: RunFolder) -> None:
        """The moves and the goals, from the traces. If these cannot be read, the verdict says why."""
        with contextlib.suppress(UsageError):
            traced = TracedRun.of(run)
            self.outcome.moves = dict(sorted(traced.moves().items()))
            self.outcome.goals = reached(traced)

    def _prove_variations(self, run: RunFolder) -> None:
        drawn = self.swarm.variations
        try:
            proofs = prove_variations(run, self.swarm.members, drawn)
        except HarnessError as error:
            proofs = dict.fromkeys(drawn.drawn(), Proof(False, " ".join(str(error).split())))
        if self.cluster.gate is not None:
            refused = sum(attempt.answer is ConnectAnswer.REFUSED for attempt in self.cluster.attempts)
            evidence = f"a client without the right credentials was refused {refused} times"
            proofs[Variation.CREDENTIALS] = Proof(self.cluster.has_refused_strangers(), evidence)
        if self.stage.others is not None:
            count = self.stage.others.sessions
            proofs[Variation.OTHER_CLIENTS] = Proof(count > 0, f"{count} sessions of clients beside those of the load")
        for kind, proof in proofs.items():
            self._note(kind, proof)

    def _note(self, kind: Variation, proof: Proof) -> None:
        self.outcome.variations[kind] = proof
        if not proof.holds:
            detail = f"{kind}: {proof}"
            self._fail(Verdict.UNKNOWN, Promise.AS_DRAWN, detail)
            add_failure(self.cluster.run, Failure(Promise.AS_DRAWN, detail))

    def _restore(self, name: str) -> bool:
        """Start another cluster from the companion's files, let it serve, and judge it like any run. Returns whether it
        was valid.
        """
        scenario, path = self.swarm.restored(), self.cluster.run.path
        try:
            origin = examine(path / name)
            stage = SimulatedStage(
                scenario,
                self.swarm.seed,
                path / RESTORED,
                self.cluster.spec.planted,
                settings=self.swarm.settings(),
                gate=self.swarm.gate(),
                traces_protocol=False,
                writes_scenario=False,
            )
            restore_into(stage.cluster, origin)
            report = _judged(scenario, stage)
        except HarnessError as error:
            self._note(Variation.RESTORE, Proof(False, " ".join(str(error).split())))
            return False
        for finding in report.findings:
            self._fail(finding.verdict, finding.promise, f"restored from {name}: {finding.detail}", finding.signature)
            if finding.verdict is Verdict.INVALID:
                # On the same promise, the folder of the seed has a finding about its own cluster.
                broken = f"{finding.promise} in the cluster restored from {name}: {' '.join(finding.detail.split())}"
                add_failure(self.cluster.run, Failure(Promise.INVARIANTS, broken))
        is_valid = report.verdict is Verdict.VALID
        shown = report.finding(Promise.BACKED_UP) if is_valid else report.worst_first[0]
        self._note(Variation.RESTORE, Proof(is_valid, shown.detail))
        return is_valid

    def _fail(self, verdict: Verdict, promise: AnyPromise, detail: str, signature: Signature | None = None) -> None:
        outcome, line = self.outcome, finding_line(verdict, promise, detail)
        fingerprint = Fingerprint.of(verdict, promise, signature)
        if verdict is not Verdict.VALID and line not in outcome.findings:
            outcome.findings.append(line)
            if fingerprint not in outcome.fingerprints:
                at = 0 if verdict > Verdict.named(outcome.verdict) else len(outcome.fingerprints)
                outcome.fingerprints.insert(at, fingerprint)
        if verdict > Verdict.named(outcome.verdict):
            outcome.verdict, outcome.promise, outcome.detail = verdict.text, promise, " ".join(detail.split())


def _judged(scenario: Scenario, stage: SimulatedStage) -> Report:
    """Play the steps and judge the run folder, also of a run that ends with a failure."""
    try:
        try:
            play(scenario, stage, lambda _: None)
        finally:
            stage.close()
    except PromiseBroken as error:
        add_failure(stage.run, error.failure)
    except HarnessError as error:
        add_failure(stage.run, Failure(Promise.RUN_ENDED, " ".join(str(error).split())))
    return verify_run(stage.run.path)


@dataclass(frozen=True, slots=True)
class SeedOrigin:
    """The origin of a seed's run folder, stored in it: enough to run the seed again, and the properties of the
    execution.
    """

    seed: int
    planted: str | None = None
    own: OwnCode | None = None
    compatibility: str = OWN
    search: str = UNIFORM
    """How its cluster is drawn."""
    digest: str = ""
    tape: Fields | None = field(default=None, compare=False)
    """The tape that makes the cluster, if the seed does not draw it; stored in a separate file."""

    def swarm(self) -> Swarm:
        """The cluster from its tape, or the cluster that the seed draws."""
        if self.tape is None:
            swarm = SEARCHES[self.search](draw_swarm(self.seed, own=self.own))
        else:
            swarm, _ = read_swarm(self.tape, self.seed)
            swarm = swarm if self.own is None else swarm.run_by(self.own)
        return replace(swarm, compatibility=self.compatibility)


@dataclass(frozen=True, slots=True)
class StoredSeed:
    """The fields read back from a seed's file."""

    seed: int
    planted: str | None = None
    own: OwnCode | None = None
    compatibility: str = OWN
    search: str = UNIFORM
    digest: str = ""


def keep_seed(origin: SeedOrigin, folder: Path) -> SeedRun:
    """Run and judge a seed, and leave its run folder there, with its origin and the protocol trace."""
    run = SeedRun(origin.swarm(), folder, origin.planted, traces_protocol=True)
    run.run()
    _write_origin(origin, run)
    return run


def _write_origin(origin: SeedOrigin, run: SeedRun) -> None:
    path = run.cluster.run.path
    played = asdict(replace(origin, digest=run.stage.digest(), tape=None))
    del played["tape"]
    write_atomically(path / SEED_FILE, jsonfields.to_json(played) + "\n")
    write_atomically(path / TAPE_FILE, jsonfields.to_json(tape_of(run.swarm).to_fields()) + "\n")


def seed_of_run(folder: Path) -> SeedOrigin | None:
    """The seed that made a run folder; None if it has another origin. Raises `UsageError` for a malformed file."""
    path = folder / SEED_FILE
    if not path.is_file():
        return None
    origin = jsonfields.read_file(StoredSeed, path)
    if origin.search not in SEARCHES:
        raise UsageError(f"{path}: search {origin.search!r} is none of {', '.join(SEARCHES)}")
    tape = jsonfields.read_object(folder / TAPE_FILE) if (folder / TAPE_FILE).is_file() else None
    return SeedOrigin(origin.seed, origin.planted, origin.own, origin.compatibility, origin.search, origin.digest, tape)


def try_seed(seed: int, planted: str | None, scratch: Path, search: str = UNIFORM) -> SeedOutcome:
    """Run and judge one seed in `scratch`, and leave nothing there."""
    return try_origin(SeedOrigin(seed, planted, search=search), scratch, None)


def try_origin(origin: SeedOrigin, scratch: Path, keep: Keep | None, fresh: FreshTiming | None = None) -> SeedOutcome:
    """Like `try_seed`, but `keep` gets the folder of a failed run."""
    folder = scratch / f"seed-{origin.seed}"
    try:
        run = SeedRun(origin.swarm(), folder, origin.planted)
        if fresh is not None:
            run.cluster.world.plan(fresh)
        outcome = run.run()
        if keep is not None and not outcome.is_valid:
            _write_origin(origin, run)
            outcome.folder = str(keep(folder) or "")
        # Its place in `scratch` is gone.
        texts = (outcome.detail, *outcome.findings)
        outcome.detail, *outcome.findings = (text.replace(f"{folder}/", "") for text in texts)
        return outcome
    finally:
        shutil.rmtree(folder, ignore_errors=True)
