"""Runs one piece of work in a child of this process, so that copies of a service share nothing.

Modules, classes and globals that one copy changed are as they were for the next. Only their results come back.
"""

import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Final, TypeVar

LONGEST_S: Final = 60
"""After so many seconds a child is ended."""
_Result = TypeVar("_Result")


def apart(work: Callable[[], _Result]) -> _Result:
    """What it returns. When it raises, or takes too long, this process ends."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.alarm(LONGEST_S)
            with os.fdopen(write_end, "wb") as pipe:
                pickle.dump(work(), pipe)
            status = 0
        except BaseException:  # noqa: BLE001 - whatever the service's code raises
            traceback.print_exc()
        finally:
            # Threads of the service are not waited for.
            sys.stderr.flush()
            os._exit(status)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        content = pipe.read()
    if os.waitpid(child, 0)[1]:
        sys.exit(1)
    returned: _Result = pickle.loads(content)
    return returned
