"""Runs one piece of work in a forked child, so that copies of a service share nothing.

Modules, classes and globals that one copy changes stay unchanged for the next. Only results come back.
"""

import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Final, TypeVar

LONGEST_S: Final = 60
"""Seconds after which a child is killed."""
_Result = TypeVar("_Result")


def apart(work: Callable[[], _Result]) -> _Result:
    """Return the result of `work`. If it raises or takes too long, this process exits."""
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
            # Do not wait for threads of the service.
            sys.stderr.flush()
            os._exit(status)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        content = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == -signal.SIGALRM:
        sys.exit(f"a copy did not end within {LONGEST_S} s")
    if status:
        sys.exit(1)
    returned: _Result = pickle.loads(content)
    return returned
