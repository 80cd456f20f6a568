"""Faults of links between members of Aeron's own: every kind, proved on a cluster that works, and refused where it has
no meaning for datagrams.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from support.fault_cases import CASES, ROUNDS, fault_of, one_round, settle
from support.live_clusters import live_stage
from support.saboteur import Sabotage
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.errors import UsageError
from upheaval.execution.live import LiveStage
from upheaval.scenario import parse_scenario
from upheaval_chaos import datagram_faults, faults, link_faults
from upheaval_chaos.driver import FaultDriver
from upheaval_chaos.host_faults import HostFaultKind
from upheaval_chaos.target import LinkFaultKind

SCENARIO: Final = parse_scenario(
    "title all\nworkload rate=300\nwait operations 1\ninject x blackhole all -> all\n", name="all", where="all"
).on_system("aeron")
MEANINGLESS: Final = (LinkFaultKind.RESET, LinkFaultKind.TIMEOUT)
_OFTEN: Final = (
    ("blackhole leader -> follower", Sabotage.NONE),
    ("blackhole leader -> follower", Sabotage.ELSEWHERE),
    ("blackhole follower <-> leader dialled-by=source", Sabotage.NONE),
    ("lose leader <-> follower percent=30", Sabotage.NONE),
    ("lose leader <-> follower percent=30", Sabotage.IDLE),
)
_OTHER_KINDS: Final = (*HostFaultKind, *MEANINGLESS)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStage]:
    """Three members behind forwarders, under load; what they left is judged at the end."""
    folder = tmp_path_factory.mktemp("links") / "run"
    with live_stage(SCENARIO, folder) as made:
        yield made
    broken = {finding.promise for finding in verify_run(folder).findings if finding.verdict is Verdict.INVALID}
    # A false injector ends members without a record of the fault.
    assert broken <= {Promise.NO_UNEXPLAINED_END}


@pytest.fixture
def impatient(sabotage: Sabotage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What will never happen need not be waited for as long as in earnest."""
    for module in (faults, link_faults, datagram_faults) if sabotage is not Sabotage.NONE else ():
        for name in ("TAKES_EFFECT_S", "COMES_BACK_S"):
            monkeypatch.setattr(module, name, 2.0, raising=False)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("statement", "sabotage"),
    [
        pytest.param(*each, marks=() if each in _OFTEN else pytest.mark.nightly)
        for each in ROUNDS
        if each[0].split()[0] not in _OTHER_KINDS
    ],
)
def test_a_fault_is_proved_when_it_was_done(
    statement: str, sabotage: Sabotage, stage: LiveStage, impatient: None
) -> None:
    record = one_round(stage.target, fault_of(statement), sabotage)
    assert record.is_proved == (sabotage is Sabotage.NONE), record
    if record.is_proved:
        # A link that is cut holds its members in an election for as long as it is cut.
        stage.record_fault(record)


@pytest.mark.heavy
def test_clients_that_are_cut_off_hear_nothing_and_go_on(stage: LiveStage) -> None:
    """Answers come to them on streams that members dial: a cut that missed these would not stop the load."""
    target = stage.target
    driver = FaultDriver(target, stage.record_fault)
    assert driver.inject("x", fault_of("blackhole all -> clients")).holds
    before = target.acknowledged()
    target.let_pass(1.0)
    assert target.acknowledged() == before
    assert driver.heal("x").holds
    settle(target)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", MEANINGLESS)
def test_what_ends_connections_is_refused(kind: LinkFaultKind, stage: LiveStage) -> None:
    records: list[object] = []
    driver = FaultDriver(stage.target, records.append)
    with pytest.raises(UsageError, match=f"^system aeron:[0-9.]+ speaks datagrams: the fault {kind}, which ends conn"):
        driver.inject("x", fault_of(CASES[kind][0]))
    driver.heal_all()
    assert records == []
