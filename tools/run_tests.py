"""Run every suite that this machine can run, independent ones side by side, and say what could not run and why.

`--require all` (or UPHEAVAL_REQUIRE=all) makes a suite that cannot run a failure. Suites that make promises about time
run alone, at the end.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Suite:
    """A pytest run. `needs` are programs that must be on the path; suites of one `lane` run one after the other."""

    name: str
    arguments: tuple[str, ...]
    lane: int
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    suite: Suite
    status: int
    output: str
    seconds: float


SUITES = (
    Suite("architecture", ("tests/architecture",), 0),
    Suite("unit", ("tests/unit",), 0),
    Suite("simulation", ("tests/simulation",), 1),
    Suite("integration", ("tests/integration", "-m", "not timing"), 1, ("strace",)),
    Suite("timing", ("tests/integration", "-m", "timing"), 2),
)


def missing_programs(suite: Suite) -> list[str]:
    return [program for program in suite.needs if shutil.which(program) is None]


def run_suite(suite: Suite) -> Outcome:
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *suite.arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    outcome = Outcome(suite, done.returncode, done.stdout, time.monotonic() - begin)
    verdict = "ok" if outcome.status == 0 else f"FAILED ({outcome.status})"
    print(f"{suite.name}: {verdict} in {outcome.seconds:.0f} s", flush=True)
    if outcome.status:
        print(outcome.output, flush=True)
    return outcome


def run_lane(suites: list[Suite]) -> list[Outcome]:
    return [run_suite(suite) for suite in suites]


def counts(outcomes: list[Outcome], word: str) -> int:
    return sum(int(n) for o in outcomes for n in re.findall(rf"(\d+) {word}", o.output.splitlines()[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted({s.name for s in SUITES} | {"docker"}), help="one suite")
    parser.add_argument(
        "--require", default=os.environ.get("UPHEAVAL_REQUIRE", ""), help="`all`: nothing may be left out"
    )
    arguments = parser.parse_args()
    chosen = [s for s in SUITES if arguments.only in (None, s.name)]
    if not chosen:
        print(f"there is no {arguments.only} suite in this version", file=sys.stderr)
        return 2
    runnable = [s for s in chosen if not missing_programs(s)]
    left_out = [s for s in chosen if missing_programs(s)]
    print("running: " + ", ".join(s.name for s in runnable), flush=True)
    lanes = [[s for s in runnable if s.lane == lane] for lane in (0, 1)]
    with ThreadPoolExecutor(len(lanes)) as pool:
        outcomes = [outcome for lane in pool.map(run_lane, lanes) for outcome in lane]
    outcomes += run_lane([s for s in runnable if s.lane == 2])
    for suite in left_out:
        print(f"not run: {suite.name}: needs {', '.join(missing_programs(suite))}")
    failed = [o for o in outcomes if o.status] or (left_out if arguments.require == "all" else [])
    print(f"{counts(outcomes, 'passed')} passed, {counts(outcomes, 'failed') + counts(outcomes, 'error')} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
