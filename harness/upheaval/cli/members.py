"""The commands that start, instruct and end: up, snapshot, suspend, resume, shutdown, abort, kill, start, down."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from upheaval.cli.answers import answer
from upheaval.cli.cluster_commands import UpOptions
from upheaval.cli.fault_commands import DamageOptions, KillOptions
from upheaval.cli.operate_commands import AdminOptions
from upheaval.cli.output import note
from upheaval.cli.parsing import ClusterOptions, MemberOptions
from upheaval.cli.settings import Settings, read_settings
from upheaval.errors import UnknownOutcome, UsageError
from upheaval.operations.end import end_cluster
from upheaval.records import service_folder
from upheaval.runtime_names import LIVE_RUNTIMES, PROCESS
from upheaval.runtimes import cluster_file
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.opening import create_cluster, open_cluster
from upheaval.security import create_for_cluster
from upheaval.system import CLUSTER_OF_THREE, ClusterSpec, system_named
from upheaval_chaos.faults import Members
from upheaval_chaos.file_faults import FileFault, FileFaultKind, Part
from upheaval_chaos.log_purge import purge_of

PROTOCOL_TRACE_LIMIT = 64 * 1024 * 1024
"""How many bytes the protocol trace of each process may take; the newest part is kept."""

# The options of `up` that a folder remembers.
_REMEMBERED = (
    "members",
    "components",
    "profile",
    "sync_level",
    "leader_disconnect_ms",
    "service",
    "model",
    "schema",
    "base_port",
    "launcher",
    "jvm",
)


def up(options: UpOptions) -> int:
    """Start a new cluster, or what is not running of the one in the folder."""
    is_there = cluster_file.has_cluster(options.dir)
    settings = Settings() if is_there else read_settings()
    options = settings.completed(options)
    runtime = options.runtime or settings.runtime_among(LIVE_RUNTIMES) or PROCESS
    given = {name: value for name in _REMEMBERED if (value := getattr(options, name)) is not None}
    if options.schema is not None:
        given["schema"] = str(Path(options.schema).absolute())
    if options.system is not None:
        given["system"] = system_named(options.system).text
    if options.trace and not is_there:
        given["protocol_trace"] = PROTOCOL_TRACE_LIMIT
    if not is_there:
        given |= _security(options)
        if options.service is not None and ":" in options.service:
            system = given.get("system", CLUSTER_OF_THREE.system)
            given["source"] = str(service_folder(options.service, Path.cwd(), system, options.model or ""))
    with (
        open_cluster(options.dir)
        if is_there
        else create_cluster(
            runtime,
            options.dir,
            ClusterSpec(**given),
            detached=True,
        )
    ) as cluster:
        if is_there:
            _require_same(cluster, options, given)
        for sentence in cluster.notes:
            note(sentence)
        leader = cluster.up(options.timeout)
        config = cluster.config
        term = cluster.status()[leader].leadership_term_id
        text = (
            f"{config.members} members ({config.components}, profile {config.profile}) in {cluster.folder}\n"
            f"leader: member {leader}, term {term}"
        )
        facts = {"dir": str(cluster.folder), "members": config.members, "leader": leader, "term": term}
    answer(text, facts, as_json=options.json)
    return 0


def _security(options: UpOptions) -> dict[str, str]:
    """The certificates, made when none are given, and the credentials file of a new cluster."""
    given: dict[str, str] = {}
    if options.tls is not None:
        folder = Path(options.tls) if options.tls else Path(f"{options.dir}.certificates")
        if not options.tls and not folder.exists():
            create_for_cluster(folder, options.members or CLUSTER_OF_THREE.members)
        given["tls"] = str(folder)
    if options.credentials is not None:
        given["credentials"] = str(options.credentials)
    return given


def _require_same(cluster: AnyCluster, options: UpOptions, given: Mapping[str, Any]) -> None:
    """Raises `UsageError` for options that are not those which the cluster of the folder was made with."""
    if options.runtime not in (None, cluster.runtime):
        raise UsageError(f"{options.dir} holds a cluster of the {cluster.runtime} runtime: remove --runtime")
    for name, value in given.items():
        remembered = getattr(cluster.config, name)
        if value != remembered:
            option = name.replace("_", "-")
            mend = f"remove --{option}, or name another --dir"
            raise UsageError(f"{options.dir} holds a cluster with --{option} {remembered}, not {value}: {mend}")
    if options.tls is not None and not cluster.config.tls:
        raise UsageError(f"{options.dir} holds a cluster without --tls: remove --tls")
    if options.credentials is not None and not cluster.config.credentials:
        raise UsageError(f"{options.dir} holds a cluster without --credentials: remove --credentials")
    if options.trace and not cluster.config.protocol_trace:
        raise UsageError(f"{options.dir} holds a cluster without --trace: remove --trace")
    cluster_file.check(cluster.config, cluster.runtime)


def kill(options: KillOptions) -> int:
    """SIGKILL."""
    with open_cluster(options.dir) as cluster:
        cluster.member(options.member).kill(options.component)
    text = f"killed member {options.member}" + (f" ({options.component})" if options.component else "")
    answer(text, {"member": options.member, "component": options.component}, as_json=options.json)
    return 0


def damage(options: DamageOptions) -> int:
    """Change the log of a member that is down."""
    fault = FileFault(FileFaultKind.DAMAGE, Members(member_id=options.member), Part(options.part))
    return _change_files(options, fault, f"damaged the log of member {options.member}")


def wipe(options: MemberOptions) -> int:
    """Remove the files of a member that is down."""
    fault = FileFault(FileFaultKind.WIPE, Members(member_id=options.member))
    return _change_files(options, fault, f"removed the files of member {options.member}")


def purge(options: MemberOptions) -> int:
    """Remove the log of a member that is down before its latest snapshot."""
    fault = FileFault(FileFaultKind.PURGE, Members(member_id=options.member))
    return _change_files(options, fault, f"purged the log of member {options.member}")


def _change_files(options: DamageOptions | MemberOptions, fault: FileFault, text: str) -> int:
    with open_cluster(options.dir) as cluster:
        if cluster.member(options.member).is_running():
            who = f"member {options.member}"
            raise UsageError(f"{who} is running: end it first with `upheaval stop` or `upheaval kill`")
        if fault.kind is FileFaultKind.PURGE:
            _require_purgeable(cluster, options.member)
        cluster.inject(fault)
        (*_, record) = cluster.run.read_faults()
    answer(f"{text}: {record.evidence}", {"member": options.member, "evidence": record.evidence}, as_json=options.json)
    return 0


def _require_purgeable(cluster: AnyCluster, member_id: int) -> None:
    """Raises `UsageError` before anything is recorded or changed."""
    try:
        purge_of(cluster.files(member_id), f"member {member_id}")
    except UnknownOutcome as error:
        raise UsageError(str(error)) from error


def start(options: MemberOptions) -> int:
    """Start what is missing of a member and wait until it has shown itself."""
    with open_cluster(options.dir) as cluster:
        member = cluster.member(options.member)
        was_running = member.status().alive
        if not was_running:
            with cluster.all_or_nothing():
                member.start()
                member.wait_until_alive()
    text = f"member {options.member} is running already" if was_running else f"started member {options.member}"
    answer(text, {"member": options.member, "was_running": was_running}, as_json=options.json)
    return 0


def admin_command(options: AdminOptions) -> int:
    """An admin command to a running cluster; returns when it has taken effect on every member that runs."""
    from upheaval.cluster import perform

    with open_cluster(options.dir) as cluster:
        record = perform(cluster, options.word, options.timeout)
    answer(f"{options.word}: {record.proof}", asdict(record), as_json=options.json)
    return 0


def down(options: ClusterOptions) -> int:
    """Let the members come to one position, where all of them can, and end everything."""
    with open_cluster(options.dir) as cluster:
        was_running = end_cluster(cluster, note)
    text = f"the cluster in {cluster.folder} is down" + ("" if was_running else " (it was not running)")
    answer(text, {"dir": str(cluster.folder), "was_running": was_running}, as_json=options.json)
    return 0
