"""Restore into a simulated cluster: puts a backup's files on the disk of each member before any of them starts."""

from upheaval.operations.restore import Source, archive_files, carried_operations, next_id, origin_of, recording_log_of
from upheaval.records import write_origin
from upheaval.runtimes.simulated.cluster import SimulatedCluster
from upheaval_node.files import layout


def restore_into(cluster: SimulatedCluster, origin: Source) -> None:
    """Copy the origin's history and files into a cluster that has a run folder and nothing else yet."""
    operations = carried_operations(origin, cluster.world.now_ns)
    cluster.history.extend(operations)
    cluster.first_id = next_id(operations)
    files = {f"{layout.ARCHIVE_DIRECTORY}/{entry.name}": entry.read_bytes() for entry in archive_files(origin)}
    files[layout.RECORDING_LOG] = recording_log_of(origin)
    for member in cluster.members:
        for path, content in files.items():
            member.disk.put(path, content)
    cluster.run.path.mkdir(parents=True, exist_ok=True)
    write_origin(cluster.run.path, origin_of(origin, operations))
