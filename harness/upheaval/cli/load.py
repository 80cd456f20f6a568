"""`upheaval load`: locust users on a cluster of processes, a fresh one or one that runs; statistics and the verdict."""

import argparse
import contextlib
import importlib.util
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from upheaval.checkers.run import verify_run
from upheaval.checkers.verdict import Report
from upheaval.cli.tables import table
from upheaval.errors import EnvironmentFault, HarnessError, UsageError
from upheaval.history import Outcome
from upheaval.load.settings import SHORT_NAMES, LoadSettings, Statistics
from upheaval.run_folder import RunFolder
from upheaval.runtimes import cluster_file
from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.process_table import processes_of
from upheaval_node.settings import profile_settings

# Sessions beside those of the users: the command line's client, and one that reconnects before its old one is closed.
SPARE_SESSIONS = 8
_ID_BITS = 58


def load(options: argparse.Namespace) -> int:
    if options.users < 1 or options.rate < 0:
        raise UsageError("--users is at least 1 and --rate at least 0")
    if importlib.util.find_spec("locust") is None:
        raise EnvironmentFault("locust is not installed: pip install 'upheaval[load]'")
    folder: Path = options.dir or _new_folder()
    is_ours = not cluster_file.has_cluster(folder)
    cluster = _fresh(folder, options) if is_ours else ProcessCluster.open(folder)
    _require_room(cluster, options.users)
    settings = _settings(cluster, options)
    _write_workload(cluster, options, settings)
    try:
        if is_ours:
            _say(f"starting {options.members} members in {folder}, each lets {cluster.config.max_sessions} sessions in")
            cluster.up()
        _say(f"{options.users} users for {options.duration:g} s")
        statistics = _run_users(settings)
        if processes_of(cluster.config.run_id):
            with contextlib.suppress(HarnessError):
                # What is not reached is in the verdict.
                cluster.converge()
    finally:
        if is_ours:
            cluster.down()
    report = verify_run(folder)
    outcomes = _outcomes(cluster.run, settings.first_id)
    if options.json:
        print(_json(statistics, outcomes, report))
    else:
        _print(statistics, outcomes, report)
    return report.verdict.exit_status


def _fresh(folder: Path, options: argparse.Namespace) -> ProcessCluster:
    limit = max(options.users + SPARE_SESSIONS, profile_settings("test").cluster.max_sessions)
    return ProcessCluster.create(folder, members=options.members, max_sessions=limit)


def _require_room(cluster: ProcessCluster, users: int) -> None:
    config = cluster.config
    limit = config.max_sessions or profile_settings(config.profile).cluster.max_sessions
    if users > limit:
        raise UsageError(
            f"--users {users}: the cluster in {cluster.folder} lets {limit} sessions in: use fewer, or a fresh cluster"
        )


def _settings(cluster: ProcessCluster, options: argparse.Namespace) -> LoadSettings:
    endpoints = ",".join(f"{member}={endpoint}" for member, endpoint in cluster.config.ingress_endpoints().items())
    return LoadSettings(
        endpoints=endpoints,
        history=str(cluster.run.history_file),
        users=options.users,
        duration_s=options.duration,
        user=SHORT_NAMES.get(options.user, options.user),
        rate=options.rate,
        spawn_rate=max(options.users / 2, 1),
        timeout_s=options.timeout,
        seed=options.seed,
        # Far from what other loads of the same run draw.
        first_id=1 << _ID_BITS | random.SystemRandom().getrandbits(_ID_BITS),
    )


def _write_workload(cluster: ProcessCluster, options: argparse.Namespace, settings: LoadSettings) -> None:
    workload = {"users": settings.users, "user": settings.user, "rate": settings.rate, "duration_s": options.duration}
    manifest = replace(cluster.run.read_manifest(), seed=options.seed, workload={"locust": workload}, converge=None)
    cluster.run.write_manifest(manifest)


def _run_users(settings: LoadSettings) -> Statistics:
    """In a process of their own; it is ended when we are."""
    command = [sys.executable, "-m", "upheaval.load.runner", settings.to_json()]
    with _ended(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)) as users:
        output, errors = users.communicate()
    if users.returncode != 0:
        last = next((line for line in reversed(errors.splitlines()) if line.strip()), "it said nothing")
        raise EnvironmentFault(f"the users ended with status {users.returncode}: {last}")
    return Statistics.from_json(output.splitlines()[-1])


@contextlib.contextmanager
def _ended(process: "subprocess.Popen[str]") -> Iterator["subprocess.Popen[str]"]:
    try:
        with process:
            try:
                yield process
            except BaseException:
                process.kill()
                raise
    finally:
        process.kill()


def _outcomes(run: RunFolder, first_id: int) -> dict[Outcome, int]:
    """What the history says of the operations of this load."""
    end = first_id + (1 << 40)
    counts = Counter(operation.outcome for operation in run.read_history() if first_id <= operation.id < end)
    return {outcome: counts[outcome] for outcome in Outcome}


def _print(statistics: Statistics, outcomes: dict[Outcome, int], report: Report) -> None:
    from upheaval.cli.verify import print_report

    rows = [["operation", "requests", "failures", "a second", "p50 ms", "p95 ms", "p99 ms", "max ms"]]
    for row in (*statistics.rows, statistics.total):
        times = [f"{value:.0f}" for value in (row.p50_ms, row.p95_ms, row.p99_ms, row.max_ms)]
        rows.append([row.name, str(row.requests), str(row.failures), f"{row.per_second:.1f}", *times])
    print(table(rows))
    for text, count in statistics.errors.items():
        print(f"{count} x {text}")
    print("history: " + ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items()))
    print_report(report)


def _json(statistics: Statistics, outcomes: dict[Outcome, int], report: Report) -> str:
    findings = [{"promise": f.promise, "verdict": f.verdict.text, "detail": f.detail} for f in report.findings]
    fields = {"run": report.run, "verdict": report.verdict.text, "findings": findings}
    history = {outcome.value: count for outcome, count in outcomes.items()}
    return json.dumps({**fields, "statistics": statistics.to_fields(), "history": history}, indent=2)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _new_folder() -> Path:
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"load-{stamp}"
