"""The tool on a simulated member: the same commands, on the member's virtual disk, counters and media.

Virtual time passes while a command waits. A command may change files while the member is down, as an operator could.
"""

from collections.abc import Callable
from typing import Final

from upheaval.runtimes.simulated.cluster import SimulatedMember
from upheaval.runtimes.simulated.world import World
from upheaval_node.archive.folder import Folder, StorageFolder
from upheaval_node.counters import Counters
from upheaval_node.files import layout
from upheaval_node.files.mark_file import ClusterMarkHeader
from upheaval_node.media.component import ComponentMedia
from upheaval_node.tool.answer import Answer
from upheaval_node.tool.commands import run
from upheaval_node.tool.node import MembersAnswer
from upheaval_node.tool.query import MembersQuery
from upheaval_node.types import MS

QUERY_TURN_NS: Final = MS


def run_tool(world: World, member: SimulatedMember, command: str, *arguments: str, timeout_ms: int = 0) -> Answer:
    """Run a command of the tool on a member. Raises `NodeError` where the real command prints one line."""
    return run(SimulatedNode(world, member), command, arguments, timeout_ms)


class Operator:
    """Owns file handles that outlive the member. Implements `disk.Owner`."""

    alive = True

    def post(self, action: Callable[[], None]) -> None:
        """Run the action at once: an operator has no loop."""
        action()


class SimulatedNode:
    """Implements `upheaval_node.tool.node.Node`."""

    cluster_dir = layout.CLUSTER_DIRECTORY

    def __init__(self, world: World, member: SimulatedMember) -> None:
        self._world = world
        self._member = member
        self._storage = member.disk.storage(Operator())

    def now_ms(self) -> int:
        """The world's wall clock, without the skew of the member's host."""
        return self._world.epoch_ms

    # --- files

    def read(self, path: str) -> bytes | None:
        """The visible content; None when the file does not exist."""
        disk = self._member.disk
        return disk.read(path) if path in disk.paths else None

    def names(self, directory: str) -> list[str]:
        """Sorted names; empty when the folder does not exist."""
        return self._storage.names(directory)

    def replace(self, path: str, content: bytes) -> None:
        """Write a new file, sync it and rename it, as the real tool does."""
        new_path = f"{path}.tmp"
        file = self._storage.open(new_path, create=True)
        file.truncate(0)
        file.write(0, [content])
        file.sync(2)
        file.close()
        self._storage.rename(new_path, path)
        self._storage.sync_directory(layout.parent(path))

    def write_at(self, path: str, offset: int, content: bytes) -> None:
        """Write and sync at once."""
        file = self._storage.open(path)
        file.write(offset, [content])
        file.sync(2)
        file.close()

    def remove(self, path: str) -> None:
        """Raises `StorageError` when the file does not exist."""
        self._storage.remove(path)
        self._storage.sync_directory(layout.parent(path))

    def archive(self) -> Folder | None:
        """The archive on the member's disk."""
        return StorageFolder(self._storage, layout.ARCHIVE_DIRECTORY)

    # --- life

    def is_in_use(self, path: str, header: ClusterMarkHeader) -> bool:  # noqa: ARG002
        """Whether the member's process lives: its components run together."""
        return self._member.alive

    def cnc(self, header: ClusterMarkHeader) -> tuple[str, bytes | None]:
        """None: simulated members have no such file."""
        return f"{header.aeron_directory}/{layout.CNC.rpartition('/')[2]}", None

    def counters(self, header: ClusterMarkHeader) -> Counters | None:  # noqa: ARG002
        """The counters of the process; None when the member is down."""
        return self._member.counters if self._member.alive else None

    def query_members(self, header: ClusterMarkHeader, timeout_ms: int) -> MembersAnswer | None:
        """Query in turns of the member's own process, until the time-out in virtual time."""
        process = self._member.process
        if process is None or not process.alive:
            return None
        query: MembersQuery | None = None
        is_over = False

        def turn() -> None:
            nonlocal query
            if query is None:
                query = MembersQuery(ComponentMedia(self._member.media_driver), header)
            query.do_work(process.now())

        def plan() -> None:
            if not is_over:
                process.post(turn)
                self._world.after(QUERY_TURN_NS, plan)

        plan()
        self._world.run_until(
            lambda: not process.alive or (query is not None and query.answer is not None), timeout_ms * MS
        )
        is_over = True
        if query is None:
            return None
        process.post(query.close)
        return query.answer

    def wait(self, counters: Counters, counter_id: int, value: int, timeout_ms: int) -> bool:
        """Returns early when the member dies."""

        def is_there() -> bool:
            counter = counters.get(counter_id)
            return counter is not None and counter.get() == value

        self._world.run_until(lambda: is_there() or not self._member.alive, timeout_ms * MS)
        return is_there()
