"""A member's disk: what the processes see, and what of it would survive a power cut.

The model is the page cache of a journalling file system. A write is visible at once and survives the process. It
survives a power cut when a `sync` that began after it has completed, or when the kernel has written it back
(`Disk.write_back`). On a power cut every dirty page falls back to one of the versions it had since the last completed
sync, or to a mix of two of them by sectors (a torn write); the file's length likewise.

Names: a new file's name becomes durable with the first completed sync of that file (as on ext4 and xfs) or with
`sync_directory` of its folder; a rename or removal with `sync_directory`, else a drawn prefix of them survives.

A disk can be full (what needs room fails), slow (syncs take longer), hold other bytes than were written, or end its
process at a coming change of files, in the middle of a write if it is one.

This module knows nothing of members; it knows the owner of a handle only to deliver completions in that loop.
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
"""A gap longer than this, and than what is before it, gets new memory, whose zeros cost nothing."""
WORD_LENGTH: Final = 8
SYNC_LATENCY_MIN_NS: Final = 100 * US
SYNC_LATENCY_SPREAD_NS: Final = 2 * MS
# Linux writes dirty pages back after some seconds (dirty_writeback_centisecs, dirty_expire_centisecs).
WRITE_BACK_INTERVAL_NS: Final = 5 * S
SYNCS_KEPT: Final = 64


class Owner(Protocol):
    """The process that holds handles: completions run in its loop while it lives."""

    @property
    def alive(self) -> bool:
        """Whether the process lives: completions for a dead one are dropped."""

    def post(self, action: Action) -> None:
        """Run a completion in the loop of the process."""


class _Generation:
    """What the dirty pages and the length were when this span between two syncs first changed them."""

    __slots__ = ("pages", "size")

    def __init__(self) -> None:
        self.pages: dict[int, bytes] = {}
        self.size: int | None = None


class Inode:
    """One file: visible content, and the older versions that a power cut may bring back."""

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
        """Visible at once; what was there is kept until a sync, as a power cut may bring it back."""
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
        """Fill up with zeros to the length `end`, for what is to be written at `offset`."""
        held = len(self.data)
        if offset - held > max(HOLE, held):
            # New memory is zeros that nothing has touched.
            reaching = bytearray(end)
            reaching[:held] = self.data
            self.data = reaching
        elif end > held:
            self.data += bytes(end - held)

    def truncate(self, length: int) -> None:
        """Visible at once; what was there is kept until a sync."""
        if length < self.size:
            self._save(length, self.size)
            # One page after a cut must read as zeros when the file grows again.
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
        """Close the present span; `end_sync` of it makes everything up to here durable."""
        closed = self.generations[-1]
        self.generations.append(_Generation())
        return closed

    def end_sync(self, closed: _Generation) -> None:
        """What was written before `begin_sync` of this span is durable."""
        if closed in self.generations:
            del self.generations[: self.generations.index(closed) + 1]

    def power_cut(self, random: Random) -> None:
        """Fall back, page by page, to some version since the last completed sync."""
        sizes = [generation.size for generation in self.generations if generation.size is not None]
        size = random.choice([*sizes, self.size])
        for index in sorted({index for generation in self.generations for index in generation.pages}):
            versions = [g.pages[index] for g in self.generations if index in g.pages]
            # A cut that did not happen took no page: past the present end there is only what was there before.
            if index * PAGE < self.size:
                versions.append(bytes(self.data[index * PAGE : (index + 1) * PAGE]))
            self._put_page(index, _survivor(versions, random))
        del self.data[size:]
        self.size = size
        self.generations = [_Generation()]
        # It is unknown when what is left was written.
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
    """The files of one host. Outlives the processes; `power_cut` is the only thing that takes something away."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._visible: dict[str, Inode] = {}
        self._durable: dict[str, Inode] = {}
        # Changes of names that are not durable yet, in order: (path, inode or None when the name goes away).
        self._journal: list[tuple[str, Inode | None]] = []
        self.is_full = False
        self.extra_latency_ns = 0
        """What each sync takes longer."""
        self.changes = self.unfinished = 0
        """Changes that were begun, and those in which the process died."""
        self.power_losses = 0
        """How often it was seen to have fallen back to what is durable."""
        self.refused = 0
        """Changes that found no room."""
        self.grown = 0
        """Bytes that found room."""
        self.syncs: deque[tuple[int, int]] = deque(maxlen=SYNCS_KEPT)
        """The latest: when they began, and how long they took."""
        self._changed: list[tuple[Inode, int, bytes, bytes]] = []
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
        """The whole visible content of a file, for collectors of a run's outcome."""
        inode = self.find(path)
        return inode.read(0, inode.size)

    def find(self, path: str) -> Inode:
        """The visible file of that name. Raises `StorageError` where there is none."""
        inode = self._visible.get(_clean(path))
        if inode is None:
            raise StorageError(f"no such file: {path}")
        return inode

    def has(self, path: str) -> bool:
        """Whether a file or a folder of this name is visible."""
        path = _clean(path)
        return path in self._visible or any(name.startswith(path + "/") for name in self._visible)

    def create(self, path: str) -> Inode:
        """A new empty file in the place of whatever has the name."""
        inode = Inode()
        self._change(path, inode)
        return inode

    def change_bytes(self, path: str, offset: int, wrong: bytes) -> None:
        """Have other bytes there from now on, without anybody having written them; `restore_bytes` knows the right
        ones.
        """
        inode = self.find(path)
        right = inode.read(offset, len(wrong))
        inode.data[offset : offset + len(wrong)] = wrong
        self._changed.append((inode, offset, right, wrong))

    def restore_bytes(self) -> None:
        """Put back what was changed, where no write has replaced it since."""
        for inode, offset, right, wrong in self._changed:
            if inode.read(offset, len(wrong)) == wrong:
                inode.data[offset : offset + len(right)] = right
        self._changed.clear()

    @property
    def has_wrong_bytes(self) -> bool:
        """Whether bytes were changed and not put back."""
        return bool(self._changed)

    def put(self, path: str, content: bytes) -> None:
        """A file that has been there for long: no power cut takes anything of it away."""
        inode = Inode()
        inode.data += content
        inode.size = len(content)
        self._visible[_clean(path)] = self._durable[_clean(path)] = inode

    def rename(self, path: str, new_path: str) -> None:
        """Visible at once. Raises `StorageError` where there is no such file."""
        inode = self.find(path)
        self._change(new_path, inode)
        self._change(path, None)

    def remove(self, path: str) -> None:
        """Visible at once. Raises `StorageError` where there is no such file."""
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
        """Call `end` in the middle of a coming change of files, the next one at 0: the process dies in it."""
        self._changes_left = change
        self._end_process = end

    def disarm(self) -> bool:
        """Take that back; whether it was still to come."""
        is_armed, self._changes_left = self._changes_left >= 0, -1
        return is_armed

    def begin_change(self, owner: Owner) -> bool:
        """Whether this change of files is the one in which its process dies. Raises `ProcessDied` in a dead one."""
        if not owner.alive:
            raise ProcessDied
        self.changes += 1
        if self._changes_left < 0:
            return False
        self._changes_left -= 1
        return self._changes_left < 0

    def die(self) -> NoReturn:
        """The process that changes files now dies."""
        self.unfinished += 1
        end, self._end_process = self._end_process, _nothing
        end()
        raise ProcessDied

    def torn_length(self, length: int) -> int:
        """How much of a write is done when its process dies in it. No word is torn: kernels copy it in one piece."""
        torn = self._world.stream(f"torn-write/{self._name}").randint(0, length)
        return torn if length > WORD_LENGTH or torn == length else 0

    def require_room(self) -> None:
        """Raise `StorageError` while the disk is full, and count that."""
        if self.is_full:
            self.refused += 1
            raise StorageError("no space left on device")

    def commit_names(self, belongs: Callable[[str, Inode | None], bool]) -> None:
        """Make the name changes for which `belongs(path, inode)` holds durable, in order.

        What was done to the same name before is over with that: it never comes after it.
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
        """How long a sync of this file that begins now takes; a drawn time, longer on a slow disk."""
        drawn = self._world.stream(f"sync/{self._name}/{path}").random()
        return SYNC_LATENCY_MIN_NS + int(drawn * SYNC_LATENCY_SPREAD_NS) + self.extra_latency_ns

    def write_back(self) -> None:
        """What the kernel does every few seconds: make all that is dirty durable."""
        for inode in self._visible.values():
            if inode.dirty:
                inode.end_sync(inode.begin_sync())
        self.commit_names(lambda _path, _inode: True)

    def _write_back_periodically(self) -> None:
        self.write_back()
        self._world.after(WRITE_BACK_INTERVAL_NS, self._write_back_periodically)

    def power_cut(self) -> None:
        """Keep what is durable, plus a drawn part of what is not."""
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
        """Whether a power cut would change nothing."""
        is_clean = not any(inode.dirty for inode in self._visible.values())
        return is_clean and not self._journal and self._visible == self._durable


def _nothing() -> None:
    """No change of files ends the process."""


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
        """What makes the file longer fails on a full disk; of the write in which its process dies a part is done."""
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
        """As it is visible."""
        return self._inode.size

    def truncate(self, length: int) -> None:
        """Never fails for want of room."""
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
        """Takes the disk's latency; a process that has died in between hears nothing."""
        self._may_die()
        if level == 0:
            self._owner.post(lambda: done(None))
            return
        closed, began_ns = self._inode.begin_sync(), self._world.now_ns

        def complete() -> None:
            self._complete(closed)
            self._disk.syncs.append((began_ns, self._world.now_ns - began_ns))
            if self._owner.alive:
                self._owner.post(lambda: done(None))

        self._world.after(self._disk.sync_latency_ns(self._path), complete)

    def _complete(self, closed: _Generation) -> None:
        self._inode.end_sync(closed)
        self._disk.commit_names(lambda _path, inode: inode is self._inode)

    def close(self) -> None:
        """Nothing to give back: closing makes nothing durable."""


class SimulatedStorage:
    """`ports.Storage` of one process over its host's disk."""

    def __init__(self, disk: Disk, world: World, owner: Owner) -> None:
        self._disk = disk
        self._world = world
        self._owner = owner

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        """A new file needs room. Raises `StorageError` for a missing one without `create`."""
        if create and not self._disk.has(path):
            self._may_die()
            self._disk.require_room()
            self._disk.create(path)
        return SimulatedFile(self._disk, self._world, self._owner, _clean(path), self._disk.find(path))

    def exists(self, path: str) -> bool:
        """Whether a file or a folder of this name is visible."""
        return self._disk.has(path)

    def names(self, directory: str) -> list[str]:
        """Sorted visible names in a folder."""
        return self._disk.names(directory)

    def _may_die(self) -> None:
        if self._disk.begin_change(self._owner):
            self._disk.die()

    def remove(self, path: str) -> None:
        """Raises `StorageError` where there is no such file."""
        self._may_die()
        self._disk.remove(path)

    def rename(self, path: str, new_path: str) -> None:
        """Raises `StorageError` where there is no such file."""
        self._may_die()
        self._disk.rename(path, new_path)

    def sync_directory(self, directory: str) -> None:
        """The name changes in this folder, and not those below it, are durable."""
        self._may_die()
        folder = _clean(directory)
        self._disk.commit_names(lambda path, _inode: path.rpartition("/")[0] == folder)
