"""The promise that members record the snapshots of standbys correctly, from facts alone."""

from dataclasses import replace

import pytest

from upheaval.checkers.evidence.recordings import SnapshotRecord
from upheaval.checkers.evidence.trace_facts import ProcessLife
from upheaval.checkers.states.standby_notices import NOTICE_NS, Informed, Noted, Standby, judge_notices
from upheaval.checkers.states.taken_snapshots import Holder, OrderedSnapshot
from upheaval.checkers.verdict import Finding, NotApplicable, Verdict

AT = 4096
SERVICES = 2


def records(*, of_standby: bool) -> tuple[SnapshotRecord, ...]:
    return tuple(
        SnapshotRecord(5 + service_id, 3, 64, AT, 99, service_id, is_of_standby=of_standby, is_valid=True)
        for service_id in (1, 0, -1)
    )


def standby(own: tuple[SnapshotRecord, ...] = records(of_standby=False), lived_ns: int = NOTICE_NS) -> Standby:
    return Standby(Holder("standby-0", -1, own), {AT: (0, lived_ns)})


def member(member_id: int, known: tuple[SnapshotRecord, ...] = records(of_standby=True)) -> Informed:
    life = ProcessLife(member_id, "all", 1, 0, 300)
    return Informed(Holder(f"member-{member_id}", member_id, known, (life,)), (Noted(7, 150, AT),) if known else ())


def judged(*members: Informed, standbys: tuple[Standby, ...] = (standby(),), restored: int = -1) -> Finding:
    finding = judge_notices(members, standbys, (), (AT,), SERVICES, restored)
    assert isinstance(finding, Finding)
    return finding


def test_what_is_alike_keeps_the_promise() -> None:
    finding = judged(member(0), member(1))
    assert finding.verdict is Verdict.VALID
    assert finding.detail == "6 references of members name what standbys have, of 1 announced snapshots"


def test_without_a_standby_there_is_nothing_to_judge() -> None:
    assert isinstance(judge_notices([member(0, ())], [], [], [], SERVICES), NotApplicable)


@pytest.mark.parametrize(("name", "value"), [("position", 64), ("term_id", 4), ("term_base", 0), ("timestamp", 1)])
def test_each_field_of_a_reference_is_that_of_the_standby(name: str, value: int) -> None:
    module, *others = reversed(records(of_standby=True))
    wrong = (*others, replace(module, **{name: value}))  # type: ignore[arg-type]
    finding = judged(member(0), replace(member(1, wrong), noted=()))
    assert (finding.verdict, finding.members) == (Verdict.INVALID, (1,))
    assert f"with {name.replace('_', ' ')} {value}: the standby has" in finding.detail


def test_a_recording_that_no_standby_has_is_invalid() -> None:
    wrong = tuple(replace(record, recording_id=50) for record in records(of_standby=True))
    assert "which no standby has" in judged(member(0, wrong)).detail


def test_references_without_a_standby_are_unknown_unless_the_run_began_with_them() -> None:
    assert judged(member(0), standbys=()).verdict is Verdict.UNKNOWN
    assert judged(member(0), standbys=(), restored=AT).verdict is Verdict.VALID


@pytest.mark.parametrize("service_id", [-1, 0, 1])
def test_a_notice_that_was_written_down_is_there_of_every_service(service_id: int) -> None:
    left = tuple(record for record in records(of_standby=True) if record.service_id != service_id)
    finding = judged(replace(member(1), holder=replace(member(1).holder, records=left)))
    assert (finding.verdict, finding.members, finding.position) == (Verdict.INVALID, (1,), AT)
    assert "member-1/trace.jsonl:7" in finding.detail


def test_a_member_that_ran_when_the_command_took_effect_knows() -> None:
    order = OrderedSnapshot(2, "standby-snapshot", 100, 200, {0: AT})
    finding = judge_notices([member(0), member(1, ())], [standby()], [order], (), SERVICES)
    assert isinstance(finding, Finding)
    assert (finding.verdict, finding.members, finding.position) == (Verdict.INVALID, (1,), AT)


def test_a_snapshot_of_its_own_is_no_knowledge_of_a_standbys() -> None:
    order = OrderedSnapshot(2, "standby-snapshot", 100, 200, {0: AT})
    own = member(1, records(of_standby=False))
    finding = judge_notices([member(0), replace(own, noted=())], [standby()], [order], (), SERVICES)
    assert isinstance(finding, Finding)
    assert finding.members == (1,)


@pytest.mark.parametrize(("lived_ns", "verdict"), [(NOTICE_NS, Verdict.INVALID), (NOTICE_NS - 1, Verdict.VALID)])
def test_a_standby_that_lives_on_is_heard_by_some_member(lived_ns: int, verdict: Verdict) -> None:
    finding = judged(member(0, ()), member(1, ()), standbys=(standby(lived_ns=lived_ns),))
    assert finding.verdict is verdict
    if verdict is Verdict.INVALID:
        assert (finding.members, finding.position) == ((0, 1), AT)


def test_one_that_was_not_asked_for_need_not_be_announced() -> None:
    finding = judge_notices([member(0, ())], [standby()], [], (), SERVICES)
    assert isinstance(finding, Finding)
    assert finding.verdict is Verdict.VALID
