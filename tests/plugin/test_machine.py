"""Steps that hypothesis draws for a cluster: a right service passes, a wrong one is shrunk to what shows it."""

import json
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from upheaval import ClusterMachine, UsageError
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict

pytestmark = pytest.mark.usefixtures("shared")

SERVICES = Path(__file__).parents[1] / "support" / "services"
BOXES = st.sampled_from(["a", "b"])
COUNTS = st.integers(1, 3)


class ShelfMachine(ClusterMachine):
    service, source, retries = "shelf:Shelf", SERVICES, 20

    @rule(client=st.integers(0, 1), box=BOXES, count=COUNTS)
    def put(self, client: int, box: str, count: int) -> None:
        self.ask(client, "put", box, count)

    @rule(client=st.integers(0, 1), box=BOXES, count=COUNTS)
    def take(self, client: int, box: str, count: int) -> None:
        self.ask(client, "take", box, count)

    def ask(self, client: int, do: str, box: str, count: int) -> None:
        request = f'{{"number": "{self.new_id()}", "do": "{do}", "box": "{box}", "count": {count}}}'
        self.clients[client].request(request.encode(), retries=self.retries)


class AloneMachine(ClusterMachine):
    """A member, no failures and no retries: an example is cheap, and there is little to shrink."""

    service, source, members, has_failures = "shelf:Shelf", SERVICES, 1, False

    def ask(self, do: str, box: str) -> int:
        request = {"number": self.new_id(), "do": do, "box": box, "count": 1}
        return int(self.clients[0].request(json.dumps(request).encode()))

    @rule(box=BOXES)
    def take(self, box: str) -> None:
        self.ask("take", box)


class RaisingMachine(AloneMachine):
    service = "shelf:Raising"


class ModelRaisesMachine(AloneMachine):
    model = "fenced_model:Failing"
    """Of another service: it raises at each request."""


class OwnAssertMachine(AloneMachine):
    @rule()
    def put(self) -> None:
        assert self.ask("put", "a") < 2


class FlawedMachine(ClusterMachine):
    service = "tally"

    @rule()
    def nothing(self) -> None: ...


def failure_of(machine: type[ClusterMachine], examples: int, steps: int) -> AssertionError:
    """What hypothesis raises of the smallest example that it finds, which is the same each time."""
    with pytest.raises(AssertionError) as failed:
        run_state_machine_as_test(machine, settings=drawing(machine, examples, steps))
    return failed.value


def drawing(machine: type[ClusterMachine], examples: int, steps: int) -> settings:
    of_class = machine.TestCase.settings
    return settings(of_class, max_examples=examples, stateful_step_count=steps, derandomize=True, database=None)


def steps_of(error: AssertionError) -> list[str]:
    """As hypothesis prints them."""
    lines = "\n".join(error.__notes__).splitlines()
    return [line.removeprefix("state.") for line in lines if line.startswith("state.") and "teardown" not in line]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_right_service_passes_whatever_becomes_of_its_members() -> None:
    run_state_machine_as_test(ShelfMachine, settings=drawing(ShelfMachine, 2, 8))
    assert not Path("runs").exists()


def test_a_service_that_raises_is_shrunk_to_the_two_requests_that_matter() -> None:
    error = failure_of(RaisingMachine, 3, 4)
    assert steps_of(error) == ["take(box='a')"] * 2
    assert "shelf.py" in str(error)
    (run,) = Path("runs").iterdir()
    assert f"upheaval verify {run}" in str(error)
    finding = verify_run(run).finding(Promise.SERVICES_RAISED_NOTHING)
    assert finding.verdict is Verdict.INVALID


def test_a_model_that_raises_fails_the_example() -> None:
    error = failure_of(ModelRaisesMachine, 1, 1)
    assert steps_of(error) == ["take(box='a')"]
    assert "the model fenced_model:Failing: raised KeyError: 'id'" in str(error)


def test_a_rule_that_fails_names_the_run_of_its_smallest_example() -> None:
    error = failure_of(OwnAssertMachine, 3, 5)
    assert steps_of(error) == ["put()"] * 2
    (run,) = Path("runs").iterdir()
    assert error.__notes__[0] == f"run of the example: {run}"
    assert verify_run(run).finding(Promise.RUN_CONVERGED).verdict is Verdict.UNKNOWN


def test_a_machine_without_a_custom_service_is_refused() -> None:
    with pytest.raises(UsageError, match='FlawedMachine has no custom service: set service = "module:Class"'):
        FlawedMachine()
