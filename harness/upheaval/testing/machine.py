"""A hypothesis state machine whose rules send requests to a simulated cluster, lose its leader, and restart it.

Hypothesis draws the steps of an example and shrinks an example that fails. Each example has its own cluster. After the
last step the cluster is healed and the run is judged. Virtual time makes failures repeatable.
"""

import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, Final

from upheaval.checkers.judge import verify_to_first_failure
from upheaval.errors import UnknownOutcome, UsageError
from upheaval.judged_promises import module_of, require_judged
from upheaval.records import owned_folder
from upheaval.runtime_names import SIMULATED
from upheaval.testing.calls import Client
from upheaval.testing.chaos import Chaos
from upheaval.testing.cluster import Cluster
from upheaval_node.client.driver import NotSent, OutcomeUnknown

try:
    from hypothesis import settings, strategies as st
    from hypothesis.errors import HypothesisException
    from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
except ImportError:
    raise UsageError("ClusterMachine needs hypothesis: pip install hypothesis") from None

EXAMPLES: Final = 20
STEPS: Final = 20
CLIENT_TIMEOUT_S: Final = 3.0
_UNANSWERED: Final = (NotSent, OutcomeUnknown, UnknownOutcome)
_QUORUM_WITHOUT_LEADER: Final = 3
"""The smallest cluster that keeps a quorum when it loses its leader."""


class ClusterMachine(RuleBasedStateMachine):
    """A cluster of the custom `service`. Rules of a subclass send requests through `clients`.

    Hypothesis also draws `lose_leader`, `heal`, `snapshot` and `restart`, unless `has_failures` is False. An example
    fails when a rule raises, or when its run breaks a promise (`AssertionError` with the findings). The run of the last
    failed example is moved to `runs`. `TestCase` of a subclass is the test for pytest. It runs 20 examples of 20 steps,
    unless `TestCase.settings` says otherwise.
    """

    service: ClassVar[str] = ""
    """`module:Class`, looked up as `Cluster` does. The same holds for `source`, `model` and `schema`."""
    source: ClassVar[str | os.PathLike[str] | None] = None
    model: ClassVar[str] = ""
    schema: ClassVar[str | os.PathLike[str]] = ""
    members: ClassVar[int] = 3
    client_count: ClassVar[int] = 2
    seed: ClassVar[int] = 1
    """The seed of the simulated network and clocks, the same for all examples."""
    has_failures: ClassVar[bool] = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        case = cls.TestCase
        case.settings = settings(case.settings, max_examples=EXAMPLES, stateful_step_count=STEPS)

    def __init__(self) -> None:
        super().__init__()
        name = type(self).__name__
        if ":" not in self.service:
            raise UsageError(f'{name} has no custom service: set service = "module:Class" in the class')
        judged = {module_of(self.model), module_of(self.service)} if self.model else ()
        require_judged({type(self).__module__}, judged)
        self._handled = sys.exc_info()[1]
        self._last_id = 0
        self._ends = ExitStack()
        self._folder = self._ends.enter_context(owned_folder("machine"))
        self._run_folder = Path("runs") / f"{name}-{os.getpid()}"
        try:
            self.cluster = Cluster(
                self.service,
                self.source,
                runtime=SIMULATED,
                members=self.members,
                seed=self.seed,
                model=self.model,
                schema=self.schema,
                folder=self._folder / "run",
            )
            self.clients = [self.new_client(number) for number in range(self.client_count)]
            self.cluster.up()
        except BaseException:
            self._ends.close()
            raise

    @property
    def chaos(self) -> Chaos:
        """The faults of the cluster."""
        return self.cluster.chaos

    def new_client(self, number: int) -> Client:  # noqa: ARG002 - for who overrides it
        """Make one of `clients`, numbered from 0. Override it for clients with `accepts` or another time-out."""
        return self.cluster.client(timeout_s=CLIENT_TIMEOUT_S)

    def new_id(self) -> str:
        """An id that no other request of this example has."""
        self._last_id += 1
        return f"id-{self._last_id}"

    # --- failures ---

    def _may_fail(self) -> bool:
        return self.has_failures and not self.chaos.active

    @precondition(lambda self: self._may_fail() and self.members >= _QUORUM_WITHOUT_LEADER)
    @rule(how=st.sampled_from(["kill", "pause", "partition"]))
    def lose_leader(self, how: str) -> None:
        """Kill, pause or cut off the leader; the others elect a new one."""
        leader = self.cluster.wait_until_leader()
        others = [member_id for member_id in self.cluster.member_ids if member_id != leader]
        ways: dict[str, Callable[[], object]] = {
            "kill": lambda: self.chaos.kill(leader),
            "pause": lambda: self.chaos.pause(leader),
            "partition": lambda: self.chaos.partition(leader, others),
        }
        ways[how]()

    @precondition(lambda self: bool(self.chaos.active))
    @rule()
    def heal(self) -> None:
        """Heal the cluster: all members follow one leader."""
        self.cluster.heal()

    @precondition(_may_fail)
    @rule()
    def snapshot(self) -> None:
        """Take a snapshot on all members."""
        self.cluster.snapshot()

    @precondition(_may_fail)
    @rule(from_snapshot=st.booleans())
    def restart(self, from_snapshot: bool) -> None:
        """Restart all members, either in order from a new snapshot or after a kill."""
        if from_snapshot:
            self.cluster.restart_from_snapshot()
        else:
            self.chaos.kill("all")
            self.cluster.heal()

    # --- the end of an example ---

    def teardown(self) -> None:
        """Judge the run. Raises `AssertionError` for broken promises, and for a model or promises that raise.

        Does not judge when a rule has raised, unless it raised for want of an answer: then the run says more.
        """
        error = sys.exc_info()[1]
        try:
            # Hypothesis may run an example while it handles the error of another one.
            is_of_rule = error is not None and error is not self._handled
            if not is_of_rule or isinstance(error, _UNANSWERED):
                self._judge()
            if is_of_rule and isinstance(error, Exception) and not isinstance(error, HypothesisException):
                error.add_note(f"run of the example: {self._keep()}")
        finally:
            self.cluster.down()
            self._ends.close()

    def _judge(self) -> None:
        why_not_ended: UnknownOutcome | None = None
        try:
            self.cluster.end()
        except UnknownOutcome as error:
            why_not_ended = error
            self.cluster.down()
        report = verify_to_first_failure(self.cluster.run)
        failed = [finding for finding in report.findings if finding.fails_test]
        if failed:
            lines = [line for finding in failed for line in finding.to_lines()]
            raise AssertionError(
                "\n".join([*lines, f"all of its verdict: upheaval verify {shlex.quote(str(self._keep()))}"])
            )
        if why_not_ended is not None:
            raise why_not_ended
        for gap in report.gaps:
            # The same for all examples, so Python shows it once.
            warnings.warn(f"{type(self).__name__}: {gap}", stacklevel=1)

    def _keep(self) -> Path:
        """Move the run there, in place of the run of an earlier example."""
        self.cluster.down()
        shutil.rmtree(self._run_folder, ignore_errors=True)
        self._run_folder.parent.mkdir(exist_ok=True)
        shutil.move(self.cluster.run.path, self._run_folder)
        return self._run_folder
