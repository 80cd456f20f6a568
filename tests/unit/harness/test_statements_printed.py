"""Printing and parsing agree for every kind of fault and statement, with small numbers and zeros, and by the tape."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from hypothesis import given, settings, strategies as st

from support.fault_cases import CASES
from upheaval.campaign.text_tape import read_text_tape, tape_of_text, text_of_tape
from upheaval.checkers.promises import Promise
from upheaval.scenario import Inject, Scenario, parse_scenario
from upheaval_chaos.datagram_faults import DatagramFault, DatagramFaultKind
from upheaval_chaos.errors import UsageError
from upheaval_chaos.faults import Fault, Group, MemberFault, MemberFaultKind, Members, Selector
from upheaval_chaos.file_faults import FileFault, FileFaultKind, Part
from upheaval_chaos.host_faults import HostFault, HostFaultKind
from upheaval_chaos.link_faults import LinkFault, LinkFaultKind
from upheaval_chaos.target import FRAMES, MESSAGES, Dialler, Means

SMALL: Final = st.integers(0, 3)
MEMBER: Final = st.sampled_from(
    [
        Members(member_id=0),
        Members(member_id=2),
        Members(Selector.LEADER),
        Members(Selector.FOLLOWERS, other_than="old"),
    ]
)
WHO: Final = st.one_of(MEMBER, st.just(Group((Members(member_id=1), Members(Selector.LEADER)))))
END: Final = st.one_of(WHO, st.just(Members(Selector.CLIENTS)))
CHANNEL: Final = st.sampled_from(["", "log", "consensus"])


def made(of: type, **values: st.SearchStrategy[Any]) -> st.SearchStrategy[Callable[[], Fault]]:
    """What makes such a fault, which is refused with some of the values."""
    return st.fixed_dictionaries(values).map(lambda drawn: lambda: of(**drawn))


LINK: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "sources": END,
    "targets": END,
    "both_ways": st.booleans(),
    "channel": CHANNEL,
}
KINDS: Final = {
    **{
        kind: made(MemberFault, kind=st.just(kind), members=WHO, component=st.sampled_from([None, "archive"]))
        for kind in MemberFaultKind
    },
    **{
        kind: made(HostFault, kind=st.just(kind), members=WHO, amount=st.one_of(SMALL, st.sampled_from([-100, 100])))
        for kind in HostFaultKind
    },
    **{
        kind: made(FileFault, kind=st.just(kind), members=WHO, part=st.sampled_from([None, *Part]))
        for kind in FileFaultKind
    },
    **{
        kind: made(
            LinkFault,
            kind=st.just(kind),
            latency_ms=SMALL,
            bytes_per_second=SMALL,
            timeout_ms=SMALL,
            means=st.sampled_from(Means),
            dialler=st.sampled_from(Dialler),
            **LINK,
        )
        for kind in LinkFaultKind
    },
    **{
        kind: made(
            DatagramFault,
            kind=st.just(kind),
            percent=SMALL,
            jitter_ms=SMALL,
            stream_id=SMALL,
            frames=st.sampled_from(["", *FRAMES]),
            message=st.sampled_from(["", *MESSAGES]),
            **LINK,
        )
        for kind in DatagramFaultKind
    },
}


def read(text: str) -> Scenario:
    return parse_scenario(text, name="x", where="x")


def with_fault(statement: str) -> str:
    cluster = "cluster components=split\n" if "component=" in statement else ""
    return f"title t\n{cluster}wait operations 1\ninject old kill leader\nheal old\ninject new {statement}\n"


@pytest.mark.parametrize("kind", CASES)
def test_every_kind_of_fault_is_drawn_here(kind: str) -> None:
    assert kind in KINDS


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_fault_is_read_as_it_is_written(kind: str, data: st.DataObject) -> None:
    try:
        fault = data.draw(KINDS[kind])()
        fault.require_possible(3)
    except UsageError:
        return
    steps = read(with_fault(fault.statement)).steps
    assert [step.fault for step in steps if isinstance(step, Inject)][-1] == fault


@pytest.mark.parametrize("statement", [statement for statements in CASES.values() for statement in statements])
def test_a_statement_is_written_as_it_is_read(statement: str) -> None:
    steps = read(with_fault(statement)).steps
    fault = [step.fault for step in steps if isinstance(step, Inject)][-1]
    again = [step.fault for step in read(with_fault(fault.statement)).steps if isinstance(step, Inject)][-1]
    assert again == fault


NUMBER: Final = st.one_of(SMALL, st.integers(0, 2000))
STATEMENTS: Final[tuple[tuple[str, int], ...]] = (
    ("cluster members={} sync-level=1 max-sessions={}", 1),
    ("workload rate={} slots={} sessions={} keys={} silent={}", 1),
    ("wait operations {}", 1),
    ("wait  seconds\t{}", 1),
    ("wait moment operations={} after-ms={}", 0),
    ("wait moment after-ms={}", 0),
    ("wait sent RequestVote from=member-1 candidateTermId={} logPosition={}", 0),
    ("inject a die-in-change member-1 changes={}", 0),
    ("begin b power-lost-in-change member-1 changes={}", 0),
    ("inject c wrong-bytes leader at-percent={}", 0),
    ("inject d clock-jump leader jump-ms=-{}", 100),
    ("inject e slow leader -> followers latency-ms={} bytes-per-second={}", 1),
    ("inject f timeout leader <-> followers timeout-ms={}", 1),
)
FIXED: Final = ("ask snapshot", "backup start source=LEADER", "snapshot", "witnesses off", "invariants on", "start")


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Texts with some of the statements, in this order, with numbers that may be 0 where the language takes it."""
    lines = [f"title Of {draw(NUMBER)} members  and {{}} {draw(NUMBER)}   # a remark 7"]
    for pattern, least in STATEMENTS:
        if draw(st.booleans()):
            numbers = [max(draw(NUMBER), least) for _ in range(pattern.count("{}"))]
            if pattern.startswith("cluster"):
                numbers[0] = 3 + numbers[0] % 7
            lines.append(pattern.format(*(min(n, 100) if "percent" in pattern else n for n in numbers)))
    lines += [line for line in FIXED if draw(st.booleans())]
    lines.append(f"promise {draw(st.sampled_from(Promise)).sentence}")
    return "\n".join([*lines, "wait operations 1", ""])


@given(texts())
@settings(max_examples=200, deadline=None)
def test_a_text_is_the_same_by_its_tape(text: str) -> None:
    scenario, again = read(text), read(text_of_tape(read_text_tape(tape_of_text(text))))
    assert (again.title, again.cluster, again.workload) == (scenario.title, scenario.cluster, scenario.workload)
    assert (again.steps, again.promises) == (scenario.steps, scenario.promises)
    assert (again.witnesses, again.has_invariants) == (scenario.witnesses, scenario.has_invariants)


def test_numbers_that_name_what_was_sent_are_no_choices() -> None:
    text = "title t\nwait sent RequestVote candidateTermId=7\nwait moment operations=0 after-ms=500\n"
    _, sent, moment = read_text_tape(tape_of_text(text)).spans
    assert [choice.value for choice in sent.choices] == ["wait sent RequestVote candidateTermId=7"]
    zero, after = moment.choices[1:]
    assert (zero.value, zero.rank) == (0, 0)
    assert min(after.alternatives.simpler(after.value)) == 1
