"""Values drawn from a strategy of hypothesis by a seed."""

import sys

import pytest
from hypothesis import strategies as st

from upheaval.errors import UsageError
from upheaval.testing.drawn import drawn

MOVES = st.tuples(st.sampled_from(["ann", "bob"]), st.integers(1, 10**6))


def test_a_seed_gives_the_same_values_and_another_seed_others() -> None:
    values = drawn(MOVES, 50, 7)
    assert len(values) == 50
    assert drawn(MOVES, 50, 7) == values
    assert drawn(MOVES, 50, 8) != values


def test_a_strategy_of_few_values_repeats_them() -> None:
    assert drawn(st.just("read"), 20, 1) == ["read"] * 20
    assert set(drawn(st.booleans(), 20, 1)) == {False, True}


def test_without_hypothesis_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(UsageError, match="needs hypothesis: pip install hypothesis"):
        drawn(MOVES, 1, 1)
