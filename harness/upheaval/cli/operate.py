"""The commands of an operator on single members of a cluster that goes on: stop, upgrade, replace."""

from upheaval.cli.answers import answer
from upheaval.cli.operate_commands import ReplaceOptions, UpgradeOptions
from upheaval.cli.output import note
from upheaval.cli.parsing import MemberOptions
from upheaval.operations import maintenance
from upheaval.operations.maintenance import Hosts
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.opening import open_cluster
from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.renewal import Renewal
from upheaval.system import parse_app_version


def stop(options: MemberOptions) -> int:
    """An orderly end of one member; the others go on."""
    with open_cluster(options.dir) as cluster:
        member = cluster.member(options.member)
        was_running = member.is_running()
        member.stop()
    text = f"stopped member {options.member}" if was_running else f"member {options.member} is not running"
    answer(text, {"member": options.member, "was_running": was_running}, as_json=options.json)
    return 0


def upgrade(options: UpgradeOptions) -> int:
    """Members one after the other, of a new version or just anew."""
    version = None if options.app_version is None else parse_app_version(options.app_version)
    with open_cluster(options.dir) as cluster:
        renewal = Renewal(version, options.image or "", options.to or "")
        renewed = maintenance.upgrade(cluster, hosts_of(cluster), renewal, note if options.json else print)
    if options.json:
        answer("", {"members": renewed}, as_json=True)
    return 0


def replace(options: ReplaceOptions) -> int:
    """A new host for a member that is down."""
    with open_cluster(options.dir) as cluster:
        old_files = maintenance.replace_host(cluster, hosts_of(cluster), options.member, options.seed_from)
    how = "empty" if options.seed_from is None else f"with a copy of member {options.seed_from}"
    text = f"member {options.member} began {how} and has caught up"
    if old_files is not None:
        text += f"\nits old files: {old_files}"
    facts = {
        "member": options.member,
        "copy_from": options.seed_from,
        "old_files": None if old_files is None else str(old_files),
    }
    answer(text, facts, as_json=options.json)
    return 0


def hosts_of(cluster: AnyCluster) -> Hosts:
    """What is done to the hosts of this cluster, by its runtime."""
    if isinstance(cluster, ProcessCluster):
        from upheaval.runtimes.process_hosts import ProcessHosts

        return ProcessHosts(cluster)
    from upheaval.runtimes.docker.cluster import DockerCluster
    from upheaval.runtimes.docker.hosts import DockerHosts

    assert isinstance(cluster, DockerCluster)
    return DockerHosts(cluster)
