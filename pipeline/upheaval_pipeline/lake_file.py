"""A Parquet file of a lake, as Delta's log has it."""

from dataclasses import dataclass

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
