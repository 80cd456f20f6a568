"""One seed is one execution, to the byte, whatever the hash seed of the interpreter."""

import json
import os
import subprocess
import sys

from upheaval.campaign.digests import FILE, SEEDS

HASH_SEEDS = ("1", "4242")


def digests_under(hash_seed: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-m", "upheaval.campaign.digests"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_the_committed_digests_are_what_the_seeds_give_under_any_hash_seed() -> None:
    committed = json.loads(FILE.read_text())
    assert list(committed) == [str(seed) for seed in SEEDS]
    processes = [digests_under(hash_seed) for hash_seed in HASH_SEEDS]
    for process in processes:
        output, _ = process.communicate()
        assert process.returncode == 0
        found = json.loads(output)
        changed = [seed for seed in committed if found[seed] != committed[seed]]
        assert not changed, (
            f"seeds {changed} run differently: if that is meant, python -m upheaval.campaign.digests --write"
        )
