"""`upheaval demo`: a cluster under load loses its leader, heals, and is judged. One page of what the harness does."""

import argparse
import sys
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from upheaval.checkers.run import verify_run
from upheaval.cli.verify import print_report
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.opening import create_cluster
from upheaval.runtimes.process_load import ProcessLoad
from upheaval.workload import WorkloadSettings

PHASE_TIMEOUT_S = 60.0


class _Progress:
    """One line on stderr for each step, with the seconds since the start."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._start:5.1f} s] {text}", file=sys.stderr, flush=True)


def demo(options: argparse.Namespace) -> int:
    progress = _Progress()
    folder = options.dir or _new_folder()
    cluster = create_cluster(
        options.runtime,
        folder,
        kept=False,
        members=options.members,
        components=options.components,
        sync_level=options.sync_level,
    )
    settings = WorkloadSettings(seed=options.seed)
    cluster.run.write_manifest(replace(cluster.run.read_manifest(), seed=options.seed, workload=settings.to_json()))
    progress.say(f"starting {options.members} members in {folder}" + (f"; {cluster.note}" if cluster.note else ""))
    try:
        _run(cluster, settings, options.operations, progress)
    finally:
        cluster.down()
    progress.say("the cluster is down; judging the run")
    report = verify_run(folder)
    print_report(report)
    return report.verdict.exit_status


def _run(cluster: AnyCluster, settings: WorkloadSettings, operations: int, progress: _Progress) -> None:
    leader = cluster.up()
    progress.say(f"member {leader} leads; load begins: reads, writes, compare-and-sets, appends")
    with (
        cluster.run.history_writer() as history,
        ProcessLoad(cluster.ingress_endpoints(), history, settings, resolver=cluster.resolver()) as load,
    ):
        load.wait_for_acknowledged(operations, PHASE_TIMEOUT_S)
        progress.say(f"{load.counts.ok} operations acknowledged; SIGKILL to the leader, member {leader}")
        cluster.member(leader).kill()
        if len(cluster.members) > 2:
            killed_at = time.monotonic()
            successor = cluster.wait_until_leader(other_than=leader)
            took = time.monotonic() - killed_at
            progress.say(f"member {successor} leads, {took:.2f} s after the kill")
            load.wait_for_acknowledged(operations, PHASE_TIMEOUT_S)
        progress.say(f"{load.counts.ok} operations acknowledged; member {leader} returns")
        cluster.member(leader).start()
        cluster.wait_until_caught_up(leader)
        progress.say(f"member {leader} has caught up; load goes on")
        load.wait_for_acknowledged(operations, PHASE_TIMEOUT_S)
        counts = load.finish()
    progress.say(f"load has ended: {counts.ok} acknowledged, {counts.unknown} unknown; converging")
    converge = cluster.converge()
    positions = ", ".join(str(final.commit_position) for final in converge.members)
    progress.say(f"final positions: {positions}")


def _new_folder() -> Path:
    # Local time, for people who look for the run they just made.
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"demo-{stamp}"
