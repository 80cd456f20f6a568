"""The Python processes that Spark's tasks run in. This module knows nothing of what they do."""

import gc
import os
import sys
import tempfile
from typing import Final

_LOCAL_FOLDERS: Final = "SPARK_LOCAL_DIRS"
"""Spark gives its Python processes the folders that it removes with the executor."""
_modules_known = 0


def settle() -> None:
    """Keep what was imported out of garbage collections, and temporary files where they go with the executor; every
    function that runs in tasks begins with this.

    PySpark's workers collect after each task (`gc.collect` in `pyspark/daemon.py`), which looks at every object of
    every module that they have imported: 50 to 70 ms a task with pandas and Arrow. Spark kills the process of a task
    that it cancels, which then removes nothing.
    """
    global _modules_known
    if len(sys.modules) != _modules_known:
        gc.freeze()
        _modules_known = len(sys.modules)
    if _is_in_task() and os.environ.get(_LOCAL_FOLDERS):
        tempfile.tempdir = os.environ[_LOCAL_FOLDERS].split(",")[0]


def _is_in_task() -> bool:
    """False without PySpark, too."""
    module = sys.modules.get("pyspark.taskcontext")
    return module is not None and module.TaskContext.get() is not None
