"""Whatever bytes decoders and file readers get: they read them or refuse them, and hold little memory meanwhile."""

import tracemalloc
from collections import Counter
from random import Random

import pytest

from support.hostile_inputs import Target, hostile, other_header, targets

MEMORY_BASE = 256 * 1024
MEMORY_FACTOR = 64
"""Objects are larger than the bytes that they were read from, but by no more than this factor."""

NEVER_REFUSED = {"error log", "counters"}
"""Readers that take what they understand and leave the rest."""


def attack(random: Random, count: int) -> Counter[tuple[str, bool]]:
    """`count` inputs over all targets; how many of each were read and refused."""
    everyone = targets()
    seen: Counter[tuple[str, bool]] = Counter()
    for target in random.choices(everyone, [each.weight for each in everyone], k=count):
        data = hostile(random, random.choice(target.valid))
        if target.name.endswith("messages") and random.random() < 0.3:
            data = other_header(random, data)
        try:
            seen[target.name, target.take(data)] += 1
        except Exception as error:
            raise AssertionError(f"{target.name} raised {error!r} on {data.hex()}") from error
    return seen


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 100_000), *[pytest.param(seed, 250_000, marks=pytest.mark.nightly) for seed in range(2, 6)]]
)
def test_any_input_is_read_or_refused(seed: int, count: int) -> None:
    seen = attack(Random(seed), count)
    assert sum(seen.values()) == count
    reached = {name for name, _ in seen}
    assert reached == {target.name for target in targets()}
    # What is never refused, or never read, would not say much.
    refused = {name for name, was_read in seen if not was_read}
    read = {name for name, was_read in seen if was_read}
    assert reached - refused == {target.name for target in targets() if not target.errors} | NEVER_REFUSED
    assert read == reached


@pytest.mark.parametrize("target", targets(), ids=lambda each: str(each.name))
def test_an_input_costs_little_memory(target: Target) -> None:
    random = Random(target.name)
    target.take(target.valid[0])
    tracemalloc.start()
    try:
        for _ in range(30):
            data = hostile(random, random.choice(target.valid))
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            target.take(data)
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak <= MEMORY_BASE + MEMORY_FACTOR * len(data), data.hex()
    finally:
        tracemalloc.stop()


def test_what_is_valid_is_read() -> None:
    for target in targets():
        assert any(target.take(valid) for valid in target.valid), target.name
