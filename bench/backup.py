"""`python bench/backup.py`: how far a backup is behind under load, and how long a restore takes.

Lag: three members as processes with Aeron's settings and a backup beside them take echoes; a process of its own looks
at the leader's commit position and at the backup's position a thousand times a second. Behind in milliseconds is how
long ago the first byte was committed that the backup does not have. Restore: a backup with a log of a given length is
restored into three members; measured are the copy and the start up to a leader that serves, which replays the log from
its beginning or, beside that, goes on from a snapshot at its end.
"""

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from upheaval_node.types import S

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import own
from upheaval.cluster import companion_control, perform
from upheaval.operations.restore import examine, restore
from upheaval.records import BACKUP_NAME, AdminCommand, CompanionConfig
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec
from upheaval_node import counters as types
from upheaval_node.files import layout
from upheaval_node.runtime.shared_counters import attach_cnc

WINDOWS = (1, 16, 256)
LOOK_S = 0.001
MESSAGE_LENGTH = 1000
PATIENCE_S = 120.0


def watch(leader_cnc: str, backup_cnc: str, seconds: float, pipe: Connection) -> None:
    """Tell when it is ready, wait for the load, then tell bytes and milliseconds that the backup was behind."""
    commit, held = _counter(leader_cnc, types.COMMIT_POSITION), _counter(backup_cnc, types.BACKUP_LIVE_LOG_POSITION)
    pipe.send(None)
    pipe.recv()
    time.sleep(own.WARM_UP_NS / S)
    missing: deque[tuple[int, int]] = deque()
    found = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        position, committed, now_ns = held.get(), commit.get(), time.monotonic_ns()
        missing.append((committed, now_ns))
        while missing and missing[0][0] <= position:
            missing.popleft()
        late_ms = (now_ns - missing[0][1]) / 1e6 if missing else 0.0
        found.append((max(committed - position, 0), late_ms))
        time.sleep(LOOK_S)
    pipe.send(found)


def _counter(path: str, type_id: int) -> types.Counter:
    cnc = attach_cnc(path)
    assert cnc is not None, path
    counter = cnc.counters().find(type_id)
    assert counter is not None, path
    return counter


def measure_lag(window: int, seconds: float, source: str) -> dict[str, float]:
    with own.running_cluster(profile="aeron", sync_level=0) as cluster:
        companion_control.start(cluster, CompanionConfig(BACKUP_NAME, source), PATIENCE_S)
        companion_control.wait_until_caught_up(cluster, BACKUP_NAME, PATIENCE_S)
        client = own.LoadClient(cluster, window)
        leader = cluster.member(client.session.leader_member_id).folder
        paths = [str(folder / layout.CNC) for folder in (leader, cluster.companion(BACKUP_NAME).folder)]
        ours, theirs = multiprocessing.Pipe()
        looking = multiprocessing.get_context("spawn").Process(target=watch, args=(*paths, seconds, theirs))
        looking.start()
        # The session has to be kept alive meanwhile.
        client.cycle.run_until(lambda: ours.poll(), time.monotonic_ns() + 60 * S)
        ours.recv()
        ours.send(None)
        client.run(seconds)
        found: list[tuple[int, float]] = ours.recv()
        looking.join()
        answered = len(client.load.latencies_ms) / seconds
    behind, late = sorted(each for each, _ in found), sorted(each for _, each in found)
    return {
        "messages_s": answered,
        "kb_p50": behind[len(behind) // 2] / 1e3,
        "kb_p99": behind[len(behind) * 99 // 100] / 1e3,
        "ms_p50": late[len(late) // 2],
        "ms_p99": late[len(late) * 99 // 100],
        "ms_max": late[-1],
    }


def measure_restore(megabytes: int, *, snapshot: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="bench-upheaval-", dir="/var/tmp") as text:
        folder = Path(text)
        source = _backed_up(folder / "first", megabytes, snapshot=snapshot)
        begin = time.monotonic()
        with restore(examine(source), folder / "second", runtime="process") as cluster:
            copied = time.monotonic()
            try:
                cluster.up(PATIENCE_S)
                serving = time.monotonic()
            finally:
                cluster.down()
    return {"copy_s": copied - begin, "start_s": serving - copied, "whole_s": serving - begin}


def _backed_up(folder: Path, megabytes: int, *, snapshot: bool) -> Path:
    """The folder of a backup that has that much log."""
    cluster = ProcessCluster.create(folder, ClusterSpec(profile="aeron", service="echo"))
    try:
        cluster.up()
        target = cluster
        client = own.LoadClient(cluster, 256, MESSAGE_LENGTH)
        client.send(megabytes * 1_000_000 // (MESSAGE_LENGTH + 96))
        client.session.close()
        if snapshot:
            perform(target, AdminCommand.SNAPSHOT)
        companion_control.start(target, CompanionConfig(BACKUP_NAME), PATIENCE_S)
        companion_control.wait_until_caught_up(target, BACKUP_NAME, PATIENCE_S)
    finally:
        cluster.down()
    return folder / BACKUP_NAME


def medians(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(each[name] for each in rounds), 2) for name in rounds[0]}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--megabytes", type=int, nargs="*", default=[10, 100, 300], help="lengths of restored logs")
    parser.add_argument("--source", choices=["ANY", "LEADER", "FOLLOWER"], default="FOLLOWER")
    options = parser.parse_args(arguments)
    figures: dict[str, object] = {
        f"lag, window {window}": medians(
            [measure_lag(window, options.seconds, options.source) for _ in range(options.rounds)]
        )
        for window in WINDOWS
    }
    for megabytes in options.megabytes:
        for snapshot in (False, True):
            name = f"restore of {megabytes} MB" + (" with a snapshot at the end" if snapshot else "")
            figures[name] = medians([measure_restore(megabytes, snapshot=snapshot) for _ in range(options.rounds)])
    print(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
