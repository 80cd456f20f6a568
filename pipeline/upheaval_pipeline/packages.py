"""The files of our own packages. Knows nothing of what is in them."""

import zipfile
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


def write_archive(folder: Path) -> Path:
    """Our packages in a file that Python on other machines imports from."""
    archive = folder / "upheaval.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as package:
        for path, name in files_of_packages():
            package.write(path, str(name))
    return archive
