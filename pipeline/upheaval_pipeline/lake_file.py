"""A Parquet file of a lake, as Delta's log has it."""

import re
from dataclasses import dataclass
from typing import Final

LOG: Final = "_delta_log"
"""The folder of a table that makes it one."""
_NAME: Final = re.compile(r"[0-9a-f]{32}-[0-9a-f]{8}\.parquet")
Range = tuple[str, str]


@dataclass(frozen=True, slots=True)
class File:
    """A file with rows of a table, and the least and greatest of their runs and batches."""

    table: str
    name: str
    size: int
    rows: int
    runs: Range
    batches: Range

    @property
    def path(self) -> str:
        """In the lake."""
        return f"{self.table}/{self.name}"

    def may_have(self, run: str, batch: str) -> bool:
        """Whether both are within its ranges."""
        return self.runs[0] <= run <= self.runs[1] and self.batches[0] <= batch <= self.batches[1]


def file_name(unique: str, footer: int) -> str:
    """The name of a new file: 32 hexadecimal digits, and the checksum of its footer."""
    return f"{unique}-{footer:08x}.parquet"


def is_own(name: str) -> bool:
    """Whether a lake gives a file in the folder of a table such a name. It deletes no other."""
    return _NAME.fullmatch(name) is not None
