"""Tapes: what is read of one, whatever it holds, and the plans of seeds as tapes and back."""

import pytest

from upheaval.campaign.edits import edited, simpler_choices, simplest_choices, without_spans
from upheaval.campaign.swarm import draw_swarm
from upheaval.campaign.swarm_tape import read_swarm, tape_of
from upheaval.campaign.tape import Fields, Number, OneOf, Span, TapeReader
from upheaval.records import Json

SEEDS = range(150)


def read(fields: Fields) -> Span:
    """A plan of a colour, a number, and boxes with a weight and boxes of their own."""
    reader = TapeReader(fields)
    reader.one_of("colour", ("red", "green", "blue"))
    reader.number("count", -10, 100, 0)
    for box in reader.spans("box"):
        box.number("weight", 0, 1000, grain=100)
        for inner in box.spans("box"):
            inner.number("weight", 0, 1000)
    return reader.read


def test_a_plan_of_a_seed_is_read_back_from_its_tape() -> None:
    for seed in SEEDS:
        swarm = draw_swarm(seed)
        tape = tape_of(swarm)
        again, span = read_swarm(tape.to_fields(), seed)
        assert again == swarm
        assert span == tape


def test_an_empty_tape_is_the_simplest_plan() -> None:
    swarm, span = read_swarm({}, 7)
    assert (swarm.members, swarm.faults, swarm.ending, list(swarm.variations.drawn())) == (3, (), "", [])
    assert [choice for choice in span.choices if choice.rank] == []
    assert not list(simplest_choices(span))


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"colour": "blue"}, "blue"),
        ({}, "red"),
        ({"colour": "black"}, "red"),
        ({"colour": 2}, "red"),
        ({"colour": None}, "red"),
        ({"color": "blue"}, "red"),
    ],
)
def test_what_is_no_alternative_is_the_simplest(given: dict[str, Json], value: str) -> None:
    assert read(given).choices[0].value == value


@pytest.mark.parametrize("given", [{"box": "three"}, {"box": [1, "two", None]}, {"box": {}}, {"bin": [{}]}])
def test_what_is_no_span_is_passed_over(given: dict[str, Json]) -> None:
    assert read(given) == read({})


def test_a_fault_that_another_plan_cannot_have_is_the_simplest_one() -> None:
    """A victim that a smaller cluster has not, a power cut where nothing is synced, a moment after the load."""
    faults: list[Json] = [
        {"kind": "power-cut", "start-ns": 10**9, "duration-ns": 10**9, "member": 4},
        {"kind": "kill", "start-ns": 10**9, "duration-ns": 10**9, "member": 4},
        {"kind": "kill", "start-ns": 99 * 10**9, "duration-ns": 10**9, "member": 1},
    ]
    swarm, span = read_swarm({"members": 3, "sync-level": 0, "seconds": 20, "fault": faults}, 1)
    assert [fault.kind for fault in swarm.faults] == ["pause", "kill"]
    assert [each.to_fields().get("member") for each in span.spans] == [0, 0]


@pytest.mark.parametrize(
    ("alternatives", "value", "simpler"),
    [
        (OneOf(("a", "b", "c")), "c", ["a", "b"]),
        (OneOf(("a", "b", "c")), "a", []),
        (Number(0, 100, 0), 40, [0, 20, 30, 35]),
        (Number(-100, 100, 0), -40, [0, -20, -30, -35]),
        (Number(0, 10_000, 0, 1000), 2500, [0, 1000, 2000]),
        (Number(5, 10_000, 5, 1000), 900, [5]),
        (Number(0, 100, 50), 51, [50]),
        (Number(0, 100, 50), 50, []),
    ],
)
def test_simpler_alternatives_come_simplest_first(
    alternatives: OneOf | Number, value: int | str, simpler: list[int | str]
) -> None:
    assert list(alternatives.simpler(value)) == simpler


def test_edits_leave_spans_out_and_make_choices_simpler_the_boldest_first() -> None:
    root = read({"colour": "blue", "count": 4, "box": [{"weight": 300, "box": [{"weight": 7}]}, {"weight": 0}]})
    smaller = [read(fields) for fields in without_spans(root)]
    assert [len(list(span.walk())) - 1 for span in smaller] == [0, 1, 2, 2]
    simplest = [read(fields) for fields in simplest_choices(root)]
    assert simplest[0].to_fields() == {**root.to_fields(), "colour": "red", "count": 0}
    assert [span.complexity for span in simplest if span.complexity >= root.complexity] == []
    assert all(read(fields).complexity < root.complexity for fields in simpler_choices(root))
    assert edited(root) == root.to_fields()


def test_simpler_is_fewer_spans_then_fewer_choices_then_lower_ones() -> None:
    ordered: list[Fields] = [
        {},
        {"count": 1},
        {"count": 100},
        {"count": 1, "colour": "green"},
        {"box": [{}]},
        {"box": [{"weight": 5}]},
        {"box": [{"box": [{}]}]},
    ]
    complexities = [read(fields).complexity for fields in ordered]
    assert complexities == sorted(complexities)
    assert len(set(complexities)) == len(ordered)
