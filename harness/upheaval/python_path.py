"""Where modules of users are found."""

import contextlib
import sys
from collections.abc import Iterator, Sequence


@contextlib.contextmanager
def on_python_path(folders: Sequence[str]) -> Iterator[None]:
    """Find modules where the members find them, within the block only."""
    sys.path[:0] = folders
    try:
        yield
    finally:
        for folder in folders:
            with contextlib.suppress(ValueError):
                sys.path.remove(folder)
