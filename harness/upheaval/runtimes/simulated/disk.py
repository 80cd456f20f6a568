"""A member's disk: what processes see, and what survives a power cut.

The model is the page cache of a journalling file system. A write is visible at once and survives the process. It
survives a power cut if a `sync` that began after the write has completed, or if the kernel has written it back
(`Disk.write_back`). On a power cut, every dirty page falls back to one of its versions since the last completed sync,
or to a mix of two versions by sectors (a torn write). The file's length falls back likewise.

Names: a new file's name becomes durable with the first completed sync of that file (as on ext4 and xfs) or with
`sync_directory` of its folder. A rename or removal becomes durable with `sync_directory`; otherwise a random prefix of
these changes survives.

A disk can be full (a change that needs space fails), slow (syncs take longer), hold other bytes than were written, or
end its process at a coming file change, even in the middle of a write.

This module knows nothing of members. It knows the owner of a handle only to deliver completions in its loop.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NoReturn, Protocol

from upheaval.runtimes.simulated.errors import ProcessDied
from upheaval.runtimes.simulated.world import Action, World
from upheaval_node.errors import StorageError
from upheaval_node.ports import Buffer
from upheaval_node.types import MS, US, S

PAGE: Final = 4096
SECTOR: Final = 512
HOLE: Final = 16 * PAGE
"""The gap, in bytes, beyond which (and beyond the present content) a write allocates new memory, whose zeros cost
nothing.
"""
WORD_LENGTH: Final = 8
SYNC_LATENCY_MIN_NS: Final = 100 * US
SYNC_LATENCY_SPREAD_NS: Final = 2 * MS
# Linux writes dirty pages back after some seconds (dirty_writeback_centisecs, dirty_expire_centisecs).
WRITE_BACK_INTERVAL_NS: Final = 5 * S
SYNCS_KEPT: Final = 64


class Owner(Protocol):
    """The process that owns handles: completions run in its loop while it lives."""

    @property
    def alive(self) -> bool:
        """Whether the process lives: completions for a dead process are dropped."""

    def post(self, action: Action) -> None:
        """Run a completion in the loop of the process."""


class _Generation:
    """The old content of pages, and the old length, from before their first change in one span between two syncs."""

    __slots__ = ("pages", "size")

    def __init__(self) -> None:
        self.pages: dict[int, bytes] = {}
        self.size: int | None = None


class Inode:
    """One file: its visible content, and the older versions that a power cut may bring back."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.size = 0
        self.written_ns = 0
        self.generations = [_Generation()]

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes of the visible content; holes are zeros."""
        end = min(offset + length, self.size)
        if end <= offset:
            return b""
        block = bytes(memoryview(self.data)[offset:end])
        return block if len(block) == end - offset else block.ljust(end - offset, b"\0")

    def write(self, offset: int, block: Buffer) -> None:
        """Write, visible at once. The old content is kept until a sync, since a power cut may bring it back."""
        end = offset + len(block)
        if end == offset:
            return
        self._save(offset, end)
        if offset == len(self.data):
            self.data += block
        else:
            self._reach(offset, end)
            self.data[offset:end] = block
        self.size = max(self.size, end)

    def _reach(self, offset: int, end: int) -> None:
        """Fill up with zeros to the length `end`, before a write at `offset`."""
        held = len(self.data)
        if offset - held > max(HOLE, held):
            # The zeros of new memory are never touched.
            reaching = bytearray(end)
            reaching[:held] = self.data
            self.data = reaching
        elif end > held:
            self.data += bytes(end - held)

    def truncate(self, length: int) -> None:
        """Truncate, visible at once. The old content is kept until a sync."""
        if length < self.size:
            self._save(length, self.size)
            # A page after the cut must read as zeros when the file grows again.
            del self.data[length:]
        elif self.generations[-1].size is None:
            self.generations[-1].size = self.size
        self.size = length

    def _save(self, start: int, end: int) -> None:
        generation = self.generations[-1]
        if generation.size is None:
            generation.size = self.size
        pages = generation.pages
        for index in range(start // PAGE, min(end - 1, max(len(self.data) - 1, start)) // PAGE + 1):
            if index not in pages:
                pages[index] = bytes(self.data[index * PAGE : (index + 1) * PAGE])
        for index in range(max(start, len(self.data)) // PAGE, (end - 1) // PAGE + 1):
            pages.setdefault(index, b"")

    @property
    def dirty(self) -> bool:
        """Whether a power cut could change the file."""
        return any(generation.size is not None for generation in self.generations)

    def begin_sync(self) -> _Generation:
        """Close the current span. `end_sync` of it makes everything up to now durable."""
        closed = self.generations[-1]
        self.generations.append(_Generation())
        return closed

    def end_sync(self, closed: _Generation) -> None:
        """Make everything durable that was written before `begin_sync` of this span."""
        if closed in self.generations:
            del self.generations[: self.generations.index(closed) + 1]

    def power_cut(self, random: Random) -> None:
        """Fall back, page by page, to a version since the last completed sync."""
        sizes = [generation.size for generation in self.generations if generation.size is not None]
        size = random.choice([*sizes, self.size])
        for index in sorted({index for generation in self.generations for index in generation.pages}):
            versions = [g.pages[index] for g in self.generations if index in g.pages]
            # If a truncation did not become durable, it took no page: past the current end only the old versions count.
            if index * PAGE < self.size:
                versions.append(bytes(self.data[index * PAGE : (index + 1) * PAGE]))
            self._put_page(index, _survivor(versions, random))
        del self.data[size:]
        self.size = size
        self.generations = [_Generation()]
        # The write time of the remaining content is unknown.
        self.written_ns = 0

    def _put_page(self, index: int, content: bytes) -> None:
        start = index * PAGE
        self._reach(start, start)
        self.data[start : start + PAGE] = content.ljust(min(PAGE, max(len(self.data) - start, len(content))), b"\0")


def _survivor(versions: list[bytes], random: Random) -> bytes:
    if len(versions) == 1 or random.random() < 0.75:
        return random.choice(versions)
    old, new = sorted(random.sample(range(len(versions)), 2))
    torn = bytearray(versions[old].ljust(PAGE, b"\0"))
    fresh = versions[new].ljust(PAGE, b"\0")
    for sector in range(0, PAGE, SECTOR):
        if random.random() < 0.5:
            torn[sector : sector + SECTOR] = fresh[sector : sector + SECTOR]
    return bytes(torn)


class Disk:
    """The files of one host. The disk outlives its processes; only `power_cut` loses data."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._visible: dict[str, Inode] = {}
        self._durable: dict[str, Inode] = {}
        # Name changes that are not durable yet, in order: (path, inode or None for a removed name).
        self._journal: list[tuple[str, Inode | None]] = []
        self.is_full = False
        self.extra_latency_ns = 0
        """What each sync takes longer."""
        self.changes = self.unfinished = 0
        """Changes that were begun, and those in which the process died."""
        self.power_losses = 0
        """How often it was seen to have fallen back to what is durable."""
        self.power_cuts = 0
        self.refused = 0
        """Changes that found no room."""
        self.grown = 0
        """Bytes that found room."""
        self.syncs: deque[tuple[int, int]] = deque(maxlen=SYNCS_KEPT)
        """The latest: when they began, and how long they took."""
        self._changed: list[tuple[str, Inode, int, bytes, bytes]] = []
        self._changes_left = -1
        self._end_process: Callable[[], None] = _nothing
        world.after(
            int(world.stream(f"write-back/{name}").random() * WRITE_BACK_INTERVAL_NS), self._write_back_periodically
        )

    def storage(self, owner: Owner) -> "SimulatedStorage":
        """The `ports.Storage` of one process."""
        return SimulatedStorage(self, self._world, owner)

    @property
    def paths(self) -> list[str]:
        """Sorted paths of all visible files."""
        return sorted(self._visible)

    def read(self, path: str) -> bytes:
        """The whole visible content of a file, for those who collect the results of a run."""
        inode = self.find(path)
        return inode.read(0, inode.size)

    def find(self, path: str) -> Inode:
        """The visible file of that name. Raises `StorageError` if there is none."""
        inode = self._visible.get(_clean(path))
        if inode is None:
            raise StorageError(f"no such file: {path}")
        return inode

    def has(self, path: str) -> bool:
        """Whether a file or folder of this name is visible."""
        path = _clean(path)
        return path in self._visible or any(name.startswith(path + "/") for name in self._visible)

    def create(self, path: str) -> Inode:
        """Create an empty file, in place of any file of that name."""
        inode = Inode()
        self._change(path, inode)
        return inode

    def change_bytes(self, path: str, offset: int, wrong: bytes) -> None:
        """Replace bytes without a write of any process. `restore_bytes` knows the right ones."""
        inode = self.find(path)
        right = inode.read(offset, len(wrong))
        inode.data[offset : offset + len(wrong)] = wrong
        self._changed.append((path, inode, offset, right, wrong))

    def restore_bytes(self) -> None:
        """Put the right bytes back, except where a write has replaced them since."""
        for _, inode, offset, right, wrong in self._changed:
            if inode.read(offset, len(wrong)) == wrong:
                inode.data[offset : offset + len(right)] = right
        self._changed.clear()

    @property
    def has_wrong_bytes(self) -> bool:
        """Whether bytes were changed and not restored."""
        return bool(self._changed)

    @property
    def wrong_places(self) -> list[tuple[str, int]]:
        """The file and the offset of bytes that were changed and not restored."""
        return [(path, offset) for path, _, offset, _, _ in self._changed]

    def put(self, path: str, content: bytes) -> None:
        """Add a file as if it had existed for long: it is durable."""
        inode = Inode()
        inode.data += content
        inode.size = len(content)
        self._visible[_clean(path)] = self._durable[_clean(path)] = inode

    def rename(self, path: str, new_path: str) -> None:
        """Rename, visible at once. Raises `StorageError` when the file does not exist."""
        inode = self.find(path)
        self._change(new_path, inode)
        self._change(path, None)

    def remove(self, path: str) -> None:
        """Remove, visible at once. Raises `StorageError` when the file does not exist."""
        self.find(path)
        self._change(path, None)

    def names(self, directory: str) -> list[str]:
        """Sorted visible names in a folder."""
        prefix = _clean(directory) + "/" if _clean(directory) else ""
        return sorted({name[len(prefix) :].split("/")[0] for name in self._visible if name.startswith(prefix)})

    def _change(self, path: str, inode: Inode | None) -> None:
        path = _clean(path)
        if inode is None:
            del self._visible[path]
        else:
            self._visible[path] = inode
        self._journal.append((path, inode))

    def end_process_at(self, change: int, end: Callable[[], None]) -> None:
        """Call `end` in the middle of a coming file change, 0 for the next one: the process dies in it."""
        self._changes_left = change
        self._end_process = end

    def disarm(self) -> bool:
        """Cancel `end_process_at`. Returns whether the end was still to come."""
        is_armed, self._changes_left = self._changes_left >= 0, -1
        return is_armed

    def begin_change(self, owner: Owner) -> bool:
        """Count a file change. Returns whether the process dies in it. Raises `ProcessDied` if the process is dead
        already.
        """
        if not owner.alive:
            raise ProcessDied
        self.changes += 1
        if self._changes_left < 0:
            return False
        self._changes_left -= 1
        return self._changes_left < 0

    def die(self) -> NoReturn:
        """End the process in the current file change."""
        self.unfinished += 1
        end, self._end_process = self._end_process, _nothing
        end()
        raise ProcessDied

    def torn_length(self, length: int) -> int:
        """How many bytes of a write are done when its process dies in it. A word is never torn: kernels copy it in one
        piece.
        """
        torn = self._world.stream(f"torn-write/{self._name}").randint(0, length)
        return torn if length > WORD_LENGTH or torn == length else 0

    def require_room(self) -> None:
        """Raise `StorageError` while the disk is full, and count the refusal."""
        if self.is_full:
            self.refused += 1
            raise StorageError("no space left on device")

    def commit_names(self, belongs: Callable[[str, Inode | None], bool]) -> None:
        """Make the name changes for which `belongs(path, inode)` holds durable, in order.

        Earlier changes of the same name are dropped, so that they are never applied after it.
        """
        if not self._journal:
            return
        others: list[tuple[str, Inode | None]] = []
        for path, inode in self._journal:
            if belongs(path, inode):
                self._apply(path, inode)
                others = [entry for entry in others if entry[0] != path]
            else:
                others.append((path, inode))
        self._journal = others

    def _apply(self, path: str, inode: Inode | None) -> None:
        if inode is None:
            self._durable.pop(path, None)
        else:
            self._durable[path] = inode

    def sync_latency_ns(self, path: str) -> int:
        """The duration of a sync of this file that begins now: drawn at random, longer on a slow disk."""
        drawn = self._world.stream(f"sync/{self._name}/{path}").random()
        return SYNC_LATENCY_MIN_NS + int(drawn * SYNC_LATENCY_SPREAD_NS) + self.extra_latency_ns

    def write_back(self) -> None:
        """Make everything dirty durable, as the kernel does every few seconds."""
        for inode in self._visible.values():
            if inode.dirty:
                inode.end_sync(inode.begin_sync())
        self.commit_names(lambda _path, _inode: True)

    def _write_back_periodically(self) -> None:
        self.write_back()
        self._world.after(WRITE_BACK_INTERVAL_NS, self._write_back_periodically)

    def power_cut(self) -> None:
        """Keep the durable content, plus a random part of the rest. No sync in flight completes."""
        self.power_cuts += 1
        named = self._world.stream(f"power-cut/{self._name}").randint(0, len(self._journal))
        for path, inode in self._journal[:named]:
            self._apply(path, inode)
        self._journal = []
        self._visible = dict(self._durable)
        for path in sorted(self._visible):
            if self._visible[path].dirty:
                self._visible[path].power_cut(self._world.stream(f"power-cut/{self._name}/{path}"))
        self.power_losses += self._is_durable

    @property
    def _is_durable(self) -> bool:
        """Whether a power cut would not change anything."""
        is_clean = not any(inode.dirty for inode in self._visible.values())
        return is_clean and not self._journal and self._visible == self._durable


def _nothing() -> None:
    """The default end: a file change that ends no process."""


def _clean(path: str) -> str:
    return "/".join(part for part in path.split("/") if part not in ("", "."))


class SimulatedFile:
    """`ports.File` over an inode."""

    def __init__(self, disk: Disk, world: World, owner: Owner, path: str, inode: Inode) -> None:
        self._disk = disk
        self._path = path
        self._world = world
        self._owner = owner
        self._inode = inode

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes; fewer at the end of the file."""
        return self._inode.read(offset, length)

    def write(self, offset: int, parts: Sequence[Buffer]) -> None:
        """Write. Growing the file fails on a full disk. A write in which its process dies is done in part."""
        if self._disk.begin_change(self._owner):
            whole = b"".join(parts)
            self._inode.write(offset, whole[: self._disk.torn_length(len(whole))])
            self._disk.die()
        if self._disk.is_full and offset + sum(map(len, parts)) > len(self._inode.data):
            self._disk.require_room()
        inode, length = self._inode, len(self._inode.data)
        for part in parts:
            inode.write(offset, part)
            offset += len(part)
        inode.written_ns = self._world.now_ns
        self._disk.grown += len(inode.data) - length

    def size(self) -> int:
        """The visible size."""
        return self._inode.size

    def truncate(self, length: int) -> None:
        """Never fails for lack of space."""
        self._may_die()
        self._inode.truncate(length)

    def _may_die(self) -> None:
        if self._disk.begin_change(self._owner):
            self._disk.die()

    def sync(self, level: int) -> None:
        """Takes no virtual time."""
        self._may_die()
        if level > 0:
            self._complete(self._inode.begin_sync())

    def sync_later(self, level: int, done: Callable[[Exception | None], None]) -> None:
        """Completes after the disk's latency, unless the process has died or the power was cut meanwhile."""
        self._may_die()
        if level == 0:
            self._owner.post(lambda: done(None))
            return
        closed, began_ns, boot = self._inode.begin_sync(), self._world.now_ns, self._disk.power_cuts

        def complete() -> None:
            if self._disk.power_cuts != boot:
                return
            self._complete(closed)
            self._disk.syncs.append((began_ns, self._world.now_ns - began_ns))
            if self._owner.alive:
                self._owner.post(lambda: done(None))

        self._world.after(self._disk.sync_latency_ns(self._path), complete)

    def _complete(self, closed: _Generation) -> None:
        self._inode.end_sync(closed)
        self._disk.commit_names(lambda _path, inode: inode is self._inode)

    def close(self) -> None:
        """Does nothing: closing makes nothing durable."""


class SimulatedStorage:
    """`ports.Storage` of one process over its host's disk."""

    def __init__(self, disk: Disk, world: World, owner: Owner) -> None:
        self._disk = disk
        self._world = world
        self._owner = owner

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        """Open a file. A new file needs space. Raises `StorageError` when the file is missing and `create` is
        not set.
        """
        if create and not self._disk.has(path):
            self._may_die()
            self._disk.require_room()
            self._disk.create(path)
        return SimulatedFile(self._disk, self._world, self._owner, _clean(path), self._disk.find(path))

    def exists(self, path: str) -> bool:
        """Whether a file or folder of this name is visible."""
        return self._disk.has(path)

    def names(self, directory: str) -> list[str]:
        """Sorted visible names in a folder."""
        return self._disk.names(directory)

    def _may_die(self) -> None:
        if self._disk.begin_change(self._owner):
            self._disk.die()

    def remove(self, path: str) -> None:
        """Raises `StorageError` when the file does not exist."""
        self._may_die()
        self._disk.remove(path)

    def rename(self, path: str, new_path: str) -> None:
        """Raises `StorageError` when the file does not exist."""
        self._may_die()
        self._disk.rename(path, new_path)

    def sync_directory(self, directory: str) -> None:
        """Make the name changes directly in this folder durable, but not those in its subfolders."""
        self._may_die()
        folder = _clean(directory)
        self._disk.commit_names(lambda path, _inode: path.rpartition("/")[0] == folder)
