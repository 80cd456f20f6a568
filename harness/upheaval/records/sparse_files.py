"""The parts of a sparse file that contain data: the segment of a recording may be long and hold little."""

import errno
import os
from collections.abc import Iterator


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
