"""`PYTHONPATH=tests python tools/right_seeds.py --out FOLDER`: count the verdicts of the right services over seeds.

Each seed draws cluster, faults and snapshots for the users' services of `tests/support/services/right`. None may be
accused. A line of JSON for each seed goes to a file; seeds in it are not run again, so an ended count goes on. The run
folder of a seed that is not valid stays.
"""

import argparse
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from support.own_campaigns import try_own_seed
from support.own_services import RIGHT_WITH_USERS
from upheaval.checkers.verdict import Verdict

ACCUSED: Final = Verdict.INVALID.text


def counted(path: Path) -> Iterator[tuple[str, int, str]]:
    """Service, seed and verdict of each line."""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        fields = json.loads(line)
        yield fields["service"], fields["seed"], fields["verdict"]


def count(first: int, last: int, out: Path) -> Counter[tuple[str, str]]:
    """Run what is missing; returns how many seeds of each service had each verdict."""
    out.mkdir(parents=True, exist_ok=True)
    lines = out / "seeds.jsonl"
    seen = {(service, seed) for service, seed, _ in counted(lines)}
    with lines.open("a") as stream:
        for seed in range(first, last + 1):
            for service in RIGHT_WITH_USERS:
                if (service, seed) not in seen:
                    stream.write(json.dumps(one(service, seed, out / f"{service}-{seed}")) + "\n")
                    stream.flush()
    return Counter((service, verdict) for service, _, verdict in counted(lines))


def one(service: str, seed: int, folder: Path) -> dict[str, object]:
    """The line of a seed."""
    shutil.rmtree(folder, ignore_errors=True)
    outcome = try_own_seed(service, seed, folder)
    if outcome.is_valid:
        shutil.rmtree(folder)
    return {**outcome.to_fields(), "service": service}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1..200", metavar="A..B")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split(".."))
    counts = count(first, last, options.out)
    for service in RIGHT_WITH_USERS:
        print(service, ", ".join(f"{counts[service, each.text]} {each.text}" for each in Verdict))
    return 1 if any(verdict == ACCUSED for _, verdict in counts) else 0


if __name__ == "__main__":
    raise SystemExit(main())
