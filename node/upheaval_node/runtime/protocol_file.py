"""Writes the protocol trace of one process of a member to a file, of which it keeps the newest part.

A line is one `write`, so it survives SIGKILL. When the file has half of its limit it becomes the older one of two, and
what was there before goes. A trace that cannot be written must not end the member: the loss is counted.
"""

import os

from upheaval_node.protocol_trace import FILE_NAME, Observation

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class ProtocolFile:
    """`component` is the component of the process, `all` for a whole member: each process has its own file."""

    def __init__(self, component: str, *, member_id: int, limit: int) -> None:
        stem, _, suffix = FILE_NAME.partition(".")
        self._stem = stem if component == "all" else f"{stem}-{component}"
        self._suffix = suffix
        self._member_id = member_id
        self._half = max(limit // 2, 1)
        self._fd = os.open(self.path, _FLAGS, 0o644)
        self._length = os.fstat(self._fd).st_size
        self.lost = 0

    @property
    def path(self) -> str:
        """The file that is written now."""
        return f"{self._stem}.{self._suffix}"

    @property
    def older_path(self) -> str:
        """The file with the observations before those in `path`, if any."""
        return f"{self._stem}.1.{self._suffix}"

    def keep(self, observation: Observation) -> None:
        """Write one observation. Failed writes are counted in `lost`."""
        line = f"{observation.to_json(self._member_id)}\n".encode()
        try:
            if self._length + len(line) > self._half and self._length:
                self._turn_over()
            self._length += os.write(self._fd, line)
        except OSError:
            self.lost += 1

    def close(self) -> None:
        """Close the file. The older one stays beside it."""
        os.close(self._fd)

    def _turn_over(self) -> None:
        os.replace(self.path, self.older_path)
        new = os.open(self.path, _FLAGS, 0o644)
        os.close(self._fd)
        self._fd, self._length = new, 0
