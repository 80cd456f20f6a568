"""Names of the files and folders in a member's folder, as Aeron names them. Paths are relative to that folder."""

from typing import Final

ARCHIVE_DIRECTORY: Final = "archive"
CLUSTER_DIRECTORY: Final = "cluster"
DRIVER_DIRECTORY: Final = "aeron"

ARCHIVE_MARK: Final = f"{ARCHIVE_DIRECTORY}/archive-mark.dat"
RECORDING_LOG: Final = f"{CLUSTER_DIRECTORY}/recording.log"
NODE_STATE: Final = f"{CLUSTER_DIRECTORY}/node-state.dat"
CLUSTER_MARK: Final = f"{CLUSTER_DIRECTORY}/cluster-mark.dat"
CNC: Final = f"{DRIVER_DIRECTORY}/cnc.dat"
DRIVER_SOCKET: Final = f"{DRIVER_DIRECTORY}/driver.sock"


def service_mark(service_id: int) -> str:
    """The mark file of a service container."""
    return f"{CLUSTER_DIRECTORY}/cluster-mark-service-{service_id}.dat"


def parent(path: str) -> str:
    """The folder part of a path; empty for a name in the member's folder itself."""
    return path.rpartition("/")[0]
