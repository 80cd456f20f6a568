"""One seed is one execution, to the byte, whatever the hash seed of the interpreter."""

import json
import os
import subprocess
import sys

import pytest

from upheaval.campaign.digests import FILE, SEEDS

SHORT = SEEDS[::4]


def digests_under(hash_seed: str, seeds: range) -> dict[str, str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-m", "upheaval.campaign.digests", *map(str, seeds)]
    output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    digests: dict[str, str] = json.loads(output)
    return digests


@pytest.mark.parametrize(
    ("hash_seed", "seeds"),
    [
        ("1", SHORT),
        pytest.param("1", SEEDS, marks=pytest.mark.nightly),
        pytest.param("4242", SEEDS, marks=pytest.mark.nightly),
    ],
)
def test_the_committed_digests_are_what_the_seeds_give_under_any_hash_seed(hash_seed: str, seeds: range) -> None:
    """The committed ones were written under a random one: an order that hashes decide differs from theirs."""
    committed = json.loads(FILE.read_text())
    assert list(committed) == [str(seed) for seed in SEEDS]
    digests = digests_under(hash_seed, seeds)
    assert list(digests) == [str(seed) for seed in seeds]
    changed = [seed for seed in digests if digests[seed] != committed[seed]]
    assert not changed, (
        f"seeds {changed} run differently: if that is meant, python -m upheaval.campaign.digests --write"
    )
