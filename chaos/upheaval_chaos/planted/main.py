"""`python -m upheaval_chaos.planted.main --planted BUG --config FILE [--component NAME]`: the test build of a member.

`UPHEAVAL_PLANTED` names the bug where there is no `--planted`. Bugs change objects, so that the sources have to run:
this module says so before it imports what it runs.
"""

import importlib
import sys

from upheaval_node.compiled import use_pure

if __name__ == "__main__":
    assert __debug__, "assertions guard what the node promises: do not switch them off"
    use_pure("a bug is planted")
    sys.exit(importlib.import_module("upheaval_chaos.planted.program").main())
