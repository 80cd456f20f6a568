"""`upheaval zoo`: which planted bugs campaigns find, by which promise, and how long that takes."""

import importlib

from upheaval.cli.fault_commands import ZooOptions
from upheaval_node.compiled import use_pure


def zoo(options: ZooOptions) -> int:
    """0 when all are caught, 1 when one escaped."""
    # Bugs change objects, so that the sources have to run. This is set before anything that runs them is imported.
    use_pure("bugs are planted")
    return int(importlib.import_module("upheaval.cli.zoo_rows").run(options))
