"""Where a sparse file has bytes of its own: a recording's segment may be long and hold little."""

import errno
import os
from collections.abc import Iterator


def data_extents(fd: int, length: int) -> Iterator[tuple[int, int]]:
    """Of an open file, from and to; all of it where the file system does not say."""
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
