"""The files of our own packages. Knows nothing of what is in them."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

PACKAGES: Final = ("upheaval", "upheaval_chaos", "upheaval_node", "upheaval_pipeline")
_SUFFIXES: Final = (".json", ".py")


def files_of_packages() -> Iterator[tuple[Path, Path]]:
    """The files of them that are imported or read: each one's path, and the path below the folder of imports."""
    for name in PACKAGES:
        root = folder_of(name)
        for path in sorted(path for path in root.rglob("*") if path.suffix in _SUFFIXES):
            yield path, Path(name) / path.relative_to(root)


def folder_of(package: str) -> Path:
    """Where one of `PACKAGES` is imported from."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations)))
