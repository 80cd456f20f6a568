"""The parts of a sparse file that contain data: the segment of a recording may be long and hold little."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_BLOCK: Final = 1 << 20


def data_extents(fd: int, length: int) -> Iterator[tuple[int, int]]:
    """The extents with data of an open file, as start and end; the whole file if the file system does not know them."""
    position = 0
    while position < length:
        try:
            start = os.lseek(fd, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        position = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, position


def copy_sparse(source: Path, target: Path, *, syncs: bool = False) -> None:
    """Copy a file with its holes. `syncs`: the copy is durable."""
    with source.open("rb", buffering=0) as reader, target.open("wb", buffering=0) as writer:
        length = os.fstat(reader.fileno()).st_size
        for start, end in data_extents(reader.fileno(), length):
            position = start
            while position < end:
                block = os.pread(reader.fileno(), min(_BLOCK, end - position), position)
                if not block:
                    break
                position += os.pwrite(writer.fileno(), block, position)
        writer.truncate(length)
        if syncs:
            os.fsync(writer.fileno())
