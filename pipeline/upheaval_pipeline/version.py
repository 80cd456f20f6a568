"""Which code reads and judges runs. Knows nothing of what it does."""

import hashlib
from functools import cache

from upheaval_pipeline.packages import files_of_packages


@cache
def version() -> str:
    """A digest of all that reads runs and judges them: other code makes other rows, or verdicts, of the same runs."""
    whole = hashlib.sha256()
    for path, _ in files_of_packages():
        whole.update(path.read_bytes() + b"\0")
    return whole.hexdigest()


def of_this_version(digest: str) -> str:
    """How a lake names what this version made of files with that digest."""
    return f"{digest} {version()}"


def digest_in(contents: str) -> str:
    """The digest of the files alone."""
    return contents.partition(" ")[0]
