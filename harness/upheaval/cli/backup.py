"""`upheaval backup` and `upheaval restore`: a backup beside a running cluster, and a new cluster from what it has."""

import json
import shlex
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from upheaval.cli.answers import answer
from upheaval.cli.operate_commands import CompanionOptions, NewClusterOptions
from upheaval.cli.output import note
from upheaval.cli.tables import number, table
from upheaval.cluster import companion_control
from upheaval.errors import UsageError
from upheaval.records import BACKUP_NAME, CompanionConfig, CompanionStatus
from upheaval.runtime_names import PROCESS
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.opening import open_cluster

OF_START: Final = ("source", "replay_start", "credentials")


def backup(options: CompanionOptions) -> int:
    """One action on the backup of a cluster."""
    return companion(options, BACKUP_NAME)


def companion(options: CompanionOptions, name: str) -> int:
    """One action on one companion of a cluster."""
    usual = CompanionConfig(name)
    wanted = replace(
        usual,
        source=options.source or usual.source,
        replay_start=options.replay_start or usual.replay_start,
        credentials="" if options.credentials is None else str(options.credentials.absolute()),
    )
    given = [field for field in OF_START if getattr(options, field) is not None]
    if given and options.action != companion_control.START:
        raise UsageError(f"--{given[0].replace('_', '-')} is an option of `upheaval {wanted.kind} start` only")
    with open_cluster(options.dir) as cluster:
        outcome = _do(cluster, options, wanted)
        status = cluster.companion(name).status()
    if options.json:
        print(json.dumps(asdict(status), indent=2))
    else:
        print(outcome or companion_table([status]))
    return 0


def _do(cluster: AnyCluster, options: CompanionOptions, wanted: CompanionConfig) -> str:
    """What there is to say; nothing when the status says it."""
    name = wanted.name
    match options.action:
        case companion_control.START:
            if not any(member.is_running() for member in cluster.members):
                raise UsageError(f"the cluster in {options.dir} is not running: start it with `upheaval up`")
            with cluster.all_or_nothing():
                return companion_control.start(cluster, wanted, options.timeout).proof.evidence
        case companion_control.STOP | companion_control.KILL:
            return f"{name}: {companion_control.end(cluster, name, options.action).proof}"
        case "wait":
            position = companion_control.wait_until_caught_up(cluster, name, options.timeout).live_log_position
            return f"{name} has the log up to position {position}"
    return ""


def companion_table(statuses: list[CompanionStatus]) -> str:
    """For people."""
    head = ["name", "alive", "state", "log up to", "applied", "latest snapshot", "retrieved", "errors", "next query"]
    rows = [[*head, "pid"]]
    rows += [
        [
            status.name,
            "yes" if status.alive else "no",
            status.state or "-",
            *(number(position) for position in (status.live_log_position, status.applied_position)),
            number(status.snapshot_position),
            *(number(count) for count in (status.snapshots_retrieved, status.errors)),
            _moment(status.next_query_deadline_ms),
            number(status.pid),
        ]
        for status in statuses
    ]
    return table(rows)


def _moment(epoch_ms: int) -> str:
    if epoch_ms < 0:
        return "-"
    try:
        return f"{datetime.fromtimestamp(epoch_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError):
        return str(epoch_ms)


def restore(options: NewClusterOptions) -> int:
    """A new cluster from a backup, started unless that is left for later."""
    from upheaval.operations.restore import examine, restore, spec_of, with_service

    source = examine(options.source_folder)
    spec = replace(spec_of(source), members=options.members, base_port=options.base_port or 0)
    if options.service is not None:
        spec = with_service(spec, options.service)
    folder: Path = options.dir
    with restore(source, folder, spec, runtime=options.runtime or PROCESS, detached=True) as cluster:
        at = f", snapshots at {', '.join(map(str, source.snapshots))}" if source.snapshots else ""
        text = f"{options.members} members in {cluster.folder} have the log up to position {source.position}{at}"
        facts = {
            "dir": str(cluster.folder),
            "members": options.members,
            "position": source.position,
            "snapshots": list(source.snapshots),
            "leader": None,
            "term": None,
        }
        if options.no_start:
            answer(
                f"{text}\nstart them with `upheaval up --dir {shlex.quote(str(folder))}`", facts, as_json=options.json
            )
            return 0
        if not options.json:
            print(text, flush=True)
        for sentence in cluster.notes:
            note(sentence)
        leader = cluster.up(options.timeout)
        term = cluster.status()[leader].leadership_term_id
        answer(f"leader: member {leader}, term {term}", facts | {"leader": leader, "term": term}, as_json=options.json)
    return 0
