"""`python bench/termination.py`: from the command to end to the exit of the last member, against the size of the state.

Three members as processes, with the `test` profile and sync level 0, whose service has a state of 1, 10 or 100 MB. The
command is given through the leader's control toggle; the end of a member is the exit of its process. A shutdown takes a
snapshot of all of it first, an abort does not. Beside it: the start from that snapshot, until a leader serves.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.ballast import VARIABLE
from upheaval.records import AdminCommand
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec
from upheaval.waits import wait_until

PATIENCE_S = 300.0
MEGABYTE = 1_000_000


def measure(megabytes: int, command: str) -> dict[str, float]:
    """Seconds to the last exit, and to the first leader of the next start."""
    folder = Path(tempfile.mkdtemp(prefix="upheaval-termination-"))
    os.environ[VARIABLE] = str(megabytes * MEGABYTE)
    cluster = ProcessCluster.create(
        folder, ClusterSpec(service="ballast:Ballast", source=str(Path(__file__).resolve().parent))
    )
    try:
        leader = cluster.up(PATIENCE_S)
        for member in cluster.members:
            cluster.wait_until_caught_up(member.member_id, PATIENCE_S)
        begin = time.monotonic()
        wait_until(lambda: not cluster.member(leader).give(command), timeout_s=PATIENCE_S, describe=lambda: "not taken")
        wait_until(
            lambda: not cluster.is_running(), timeout_s=PATIENCE_S, describe=lambda: "it runs on", interval_s=0.005
        )
        ended = time.monotonic()
        snapshots = [member.control_status().snapshot_position for member in cluster.members]
        assert len(set(snapshots)) == 1
        assert (snapshots[0] > 0) == (command == AdminCommand.SHUTDOWN), snapshots
        restart = time.monotonic()
        cluster.up(PATIENCE_S)
        return {"end_s": ended - begin, "start_s": time.monotonic() - restart}
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="From the command to end to the last exit.")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for megabytes in options.megabytes:
        for command in (AdminCommand.SHUTDOWN, AdminCommand.ABORT):
            found = [measure(megabytes, command) for _ in range(options.rounds)]
            middle = {name: round(statistics.median(each[name] for each in found), 3) for name in found[0]}
            rows.append({"megabytes": megabytes, "command": command, **middle})
            if not options.json:
                print(f"{megabytes:4} MB  {command:8}  ends in {middle['end_s']:6.3f} s", end="")
                print(f"  serves again in {middle['start_s']:6.3f} s", flush=True)
    if options.json:
        print(json.dumps(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
