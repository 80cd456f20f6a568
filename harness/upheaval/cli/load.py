"""`upheaval load`: locust users on a live cluster, a fresh one or one that runs; statistics and the verdict."""

import contextlib
import json
import math
import shlex
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.cli.cluster_commands import LoadOptions
from upheaval.cli.new_folder import run_folder
from upheaval.cli.output import note
from upheaval.cli.progress import ProgressLine, load_progress
from upheaval.cli.settings import read_settings
from upheaval.cli.tables import table
from upheaval.cluster import end_run, needs_closing_snapshot
from upheaval.errors import EnvironmentFault, HarnessError, UsageError
from upheaval.execution.stage import require_tasks_passed
from upheaval.load.on_cluster import LOG_FILE, LoadPlan, sessions_max, settings_of, write_workload
from upheaval.load.own import check_user, require_locust
from upheaval.load.settings import LoadSettings, Progress, Statistics
from upheaval.load.users_process import run_users
from upheaval.records import Outcome, RunFolder, service_folder
from upheaval.records.labels import labelled
from upheaval.runtime_names import LIVE_RUNTIMES, PROCESS
from upheaval.runtimes import cluster_file
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.opening import create_cluster, open_cluster
from upheaval.system import CLUSTER_OF_THREE, ClusterSpec, system_named
from upheaval.workload import IDS_A_LOAD

# A user that reconnects, as all do when a leader is gone, has two sessions until the cluster gives up the old one.
SESSIONS_A_USER: Final = 2
# Beside those of the users: the command line's client.
SPARE_SESSIONS: Final = 8
DURATION_S: Final = 10.0
WEB_PORT: Final = 8089
_HOST: Final = "127.0.0.1"


def load(options: LoadOptions) -> int:
    """Run the users and judge; the exit status is that of the verdict."""
    options = _checked(_of_project(options))
    with (
        _page(options) as page,
        run_folder(options.dir or options.new_dir, "load") as folder,
        labelled(folder, options.labels),
    ):
        is_ours = options.dir is None
        with _fresh(folder, options) if is_ours else open_cluster(folder) as cluster:
            if not is_ours:
                _require_same(cluster, options)
            try:
                if is_ours:
                    _say_limit(cluster, options)
                    cluster.up()
                settings = settings_of(cluster, _plan(options), page)
                write_workload(cluster, settings)
                statistics = _run(cluster, settings, page)
                require_tasks_passed(cluster.run, tuple(statistics.raised))
                if not is_ours:
                    cluster.collect()
            finally:
                if is_ours:
                    cluster.down()
    report = verify_run(folder)
    if not statistics.total.successes:
        report = _unanswered(report, statistics)
    outcomes = _outcomes(cluster.run, settings.first_id)
    if options.json:
        print(_json(statistics, outcomes, report, settings))
    else:
        _print(statistics, outcomes, report)
    return report.verdict.exit_status


def _unanswered(report: Report, statistics: Statistics) -> Report:
    """The report on a run whose verdict may rest on an earlier load: this one adds nothing to it."""
    requests = statistics.total.requests
    detail = f"none of the {requests} requests was answered" if requests else "the users made no request"
    nothing = Finding(Promise.ENOUGH_TRAFFIC, Verdict.UNKNOWN, f"{detail} (see {LOG_FILE})")
    others = tuple(finding for finding in report.findings if finding.promise != nothing.promise)
    return replace(report, findings=(*others, nothing))


def _of_project(options: LoadOptions) -> LoadOptions:
    """With what the project sets for a fresh cluster."""
    if options.dir is not None and cluster_file.has_cluster(options.dir):
        return options
    settings = read_settings()
    return replace(settings.completed(options), runtime=options.runtime or settings.runtime_among(LIVE_RUNTIMES))


def _checked(options: LoadOptions) -> LoadOptions:
    """The options with the duration of the load. Raises `UsageError` for those that do not go together."""
    if options.users < 1 or not math.isfinite(options.rate) or options.rate < 0:
        raise UsageError("--users is at least 1 and --rate at least 0")
    if options.web_port is not None and not options.web:
        raise UsageError("--web-port is for locust's page: use --web too")
    require_locust()
    if options.dir is not None and options.new_dir is not None:
        raise UsageError("--dir and --new-dir: give one of them")
    if options.dir is not None and not cluster_file.has_cluster(options.dir):
        raise UsageError(
            f"{options.dir} holds no cluster: start one with `upheaval up --dir {shlex.quote(str(options.dir))}`, "
            "or load a fresh one with --new-dir"
        )
    if options.new_dir is not None and cluster_file.has_cluster(options.new_dir):
        raise UsageError(f"{options.new_dir} holds a cluster: load it with --dir")
    if options.user is not None:
        check_user(options.user, str(Path.cwd()))
    return options if options.web or options.duration is not None else replace(options, duration=DURATION_S)


@contextlib.contextmanager
def _page(options: LoadOptions) -> Iterator[socket.socket | None]:
    """The socket of locust's page, held from before anything is started, so that a port that is taken costs nothing."""
    if not options.web:
        yield None
        return
    port = WEB_PORT if options.web_port is None else options.web_port
    try:
        page = socket.create_server((_HOST, port))
    except (OSError, OverflowError) as error:
        reason = f"port {port} cannot be had for the page ({error}): give another --web-port"
        raise EnvironmentFault(reason) from error
    with page:
        yield page


def _fresh(folder: Path, options: LoadOptions) -> AnyCluster:
    limit = max(SESSIONS_A_USER * options.users + SPARE_SESSIONS, sessions_max(CLUSTER_OF_THREE))
    service = options.service or CLUSTER_OF_THREE.service
    system = options.system or CLUSTER_OF_THREE.system
    spec = ClusterSpec(
        members=CLUSTER_OF_THREE.members if options.members is None else options.members,
        service=service,
        source=str(service_folder(service, Path.cwd(), system, options.model or "")) if ":" in service else "",
        model=options.model or "",
        schema=options.schema or "",
        max_sessions=limit,
        system=system,
    )
    return create_cluster(options.runtime or PROCESS, folder, spec)


def _require_same(cluster: AnyCluster, options: LoadOptions) -> None:
    """Raises `UsageError` for options that are not those which the cluster was made with."""
    if options.runtime not in (None, cluster.runtime):
        raise UsageError(f"{cluster.folder} holds a cluster of the {cluster.runtime} runtime: remove --runtime")
    if options.system is not None and system_named(options.system).text != cluster.config.system:
        raise UsageError(f"{cluster.folder} holds a cluster with --system {cluster.config.system}: remove --system")
    if options.service not in (None, cluster.config.service):
        raise UsageError(f"{cluster.folder} holds a cluster with --service {cluster.config.service}: remove --service")
    if options.model not in (None, cluster.config.model):
        raise UsageError(
            f"{cluster.folder} holds a cluster with --model {cluster.config.model or 'none'}: remove --model"
        )
    if options.schema is not None and str(Path(options.schema).absolute()) != cluster.config.schema:
        raise UsageError(
            f"{cluster.folder} holds a cluster with --schema {cluster.config.schema or 'none'}: remove --schema"
        )
    if options.members not in (None, cluster.config.members):
        raise UsageError(f"{cluster.folder} holds a cluster with --members {cluster.config.members}: remove --members")
    limit = sessions_max(cluster.config)
    if options.users > limit:
        raise UsageError(
            f"--users {options.users}: the cluster in {cluster.folder} allows {limit} sessions: "
            "use fewer, or a fresh cluster"
        )


def _say_limit(cluster: AnyCluster, options: LoadOptions) -> None:
    limit, usual = cluster.config.max_sessions, sessions_max(replace(cluster.config, max_sessions=0))
    raised = f" (raised from {usual} for {options.users} users)" if limit > usual else ""
    note(f"starting {cluster.config.members} members in {cluster.folder}, each allows {limit} sessions{raised}")
    for sentence in cluster.notes:
        note(sentence)


def _plan(options: LoadOptions) -> LoadPlan:
    return LoadPlan(
        users=options.users,
        rate=options.rate,
        duration_s=options.duration,
        user=options.user,
        timeout_s=options.timeout,
        seed=options.seed,
        credentials_file=options.credentials or "",
    )


def _run(cluster: AnyCluster, settings: LoadSettings, page: socket.socket | None) -> Statistics:
    """The load, and the end of the run."""
    listener = _Listener(_first_words(settings, page))
    try:
        statistics = run_users(settings, cluster.folder / LOG_FILE, listener)
    finally:
        listener.line.end()
    if cluster.is_running():
        with contextlib.suppress(HarnessError):
            # What is not reached is in the verdict.
            has_commands = any(cluster.run.read_controls())
            needs = needs_closing_snapshot(cluster.config.service, has_commands=has_commands)
            end_run(cluster, takes_snapshot=needs)
    return statistics


class _Listener:
    """Shows a person how the load gets on."""

    def __init__(self, first_words: str) -> None:
        self.line = ProgressLine()
        self._first_words = first_words

    def ready(self) -> None:
        note(self._first_words)

    def progress(self, progress: Progress) -> None:
        self.line.show(load_progress(progress))


def _first_words(settings: LoadSettings, page: socket.socket | None) -> str:
    if page is None:
        return f"{settings.users} users for {settings.duration_s:g} s"
    also = "" if settings.duration_s is None else f", and {settings.duration_s:g} s after the first start it ends too"
    return f"start and stop the load at http://{_HOST}:{page.getsockname()[1]}; Ctrl-C ends it{also}"


def _outcomes(run: RunFolder, first_id: int) -> dict[Outcome, int]:
    """What the history says of the operations of this load."""
    if not run.history_file.exists():
        return dict.fromkeys(Outcome, 0)
    end = first_id + IDS_A_LOAD
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
    for text, count in statistics.raised.items():
        print(f"{count} x a user's task raised {text}")
    print("history: " + ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items()))
    print_report(report)


def _json(statistics: Statistics, outcomes: dict[Outcome, int], report: Report, settings: LoadSettings) -> str:
    history = {outcome.value: count for outcome, count in outcomes.items()}
    names = ("users", "duration_s", "user", "rate", "timeout_s", "seed")
    load = {name: getattr(settings, name) for name in names}
    return json.dumps(
        {**report.to_fields(), "load": load, "statistics": statistics.to_fields(), "history": history}, indent=2
    )
