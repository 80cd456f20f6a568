"""The Python processes that Spark's tasks run in. This module knows nothing of what they do."""

import gc
import sys

_modules_known = 0


def settle() -> None:
    """Keep what was imported out of garbage collections; every function that runs in tasks begins with this.

    PySpark's workers collect after each task (`gc.collect` in `pyspark/daemon.py`), which looks at every object of
    every module that they have imported: 50 to 70 ms a task with pandas and Arrow.
    """
    global _modules_known
    if len(sys.modules) != _modules_known:
        gc.freeze()
        _modules_known = len(sys.modules)
