"""What `upheaval watch` costs beside a run under load: `python bench/watching.py [--rate N]... [--seconds N]`.

`upheaval load` starts a cluster of processes on this machine and sends it operations; a watch in this process follows
the run. Prints a line of JSON for each rate: answers, and the processor seconds of the watch while the run goes on,
the share of a core that they are, and those of the verdict on the whole run.
"""

import argparse
import contextlib
import cProfile
import io
import json
import pstats
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from upheaval.checkers.verdict import Verdict
from upheaval.cli.watch import Objects
from upheaval.records import RunFolder
from upheaval.waits import wait_until
from upheaval.watch.watch import INTERVAL_S, Watch

USERS = 10
RATES = (10.0, 0.0)
START_S = 60.0
PROFILE_LINES = 30


def watched(folder: Path, rate: float, seconds: int) -> dict[str, Any]:
    """A run with so many operations a second of each user; 0: each sends the next one at its answer."""
    words = [sys.executable, "-m", "upheaval.cli.main", "load", "--new-dir", str(folder), "--duration", f"{seconds}s"]
    words += ["--users", str(USERS), "--rate", str(rate), "--quiet"]
    run, lines = RunFolder(folder), io.StringIO()
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as load:
        wait_until(run.manifest_file.exists, timeout_s=START_S, describe=lambda: "the run has no manifest yet")
        before, begin = time.process_time(), time.monotonic()
        with contextlib.redirect_stdout(lines):
            watch = Watch(run, Objects())
            watch.begin()
            while not watch.look():
                time.sleep(INTERVAL_S)
            beside_s, wall_s = time.process_time() - before, time.monotonic() - begin
            verdict = watch.end()
    if load.returncode or verdict is not Verdict.VALID:
        raise SystemExit(f"the load ended with {load.returncode}, the verdict is {verdict.text}")
    judged_s = time.process_time() - before - beside_s
    followed = json.loads(lines.getvalue().splitlines()[-1])["followed"]
    share = round(100 * beside_s / wall_s, 1)
    costs = {"beside_s": round(beside_s, 2), "percent": share, "verdict_s": round(judged_s, 2)}
    return {"rate": rate * USERS, "wall_s": round(wall_s, 1), "answers": followed, **costs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, action="append", help="operations a second of each of ten users")
    parser.add_argument("--seconds", type=int, default=60, help="of load")
    parser.add_argument("--profile", action="store_true", help="also print which functions of the watch cost most")
    options = parser.parse_args()
    for rate in options.rate or RATES:
        profile = cProfile.Profile()
        with tempfile.TemporaryDirectory() as folder:
            if options.profile:
                profile.enable()
            print(json.dumps(watched(Path(folder) / "run", rate, options.seconds)), flush=True)
            profile.disable()
        if options.profile:
            pstats.Stats(profile).sort_stats("tottime").print_stats(PROFILE_LINES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
