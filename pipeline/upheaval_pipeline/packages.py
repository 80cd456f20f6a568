"""Our own packages, and where they lie. Knows nothing of what is in them."""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

PACKAGES: Final = ("upheaval", "upheaval_chaos", "upheaval_node", "upheaval_pipeline")


def root_of(package: str) -> Path:
    """The folder of its modules."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations)))
