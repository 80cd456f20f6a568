"""The first process of the test build of the node: one member, with the bug that `UPHEAVAL_PLANTED` names.

Everything else is configured as in the node's own image. Without a bug to plant it starts the node as it is.
"""

import os
import sys

from start import FOLDER, USAGE, configure_from_environment, main


def command() -> list[str]:
    """What runs a member with a planted bug; the module reads the bug's name from the environment."""
    module = "upheaval_chaos.planted.main"
    return [sys.executable, "-m", module, "--config", str(FOLDER / "config.json"), *sys.argv[1:]]


if __name__ == "__main__":
    if not os.environ.get("UPHEAVAL_PLANTED"):
        sys.exit(main())
    if not configure_from_environment():
        sys.exit(USAGE)
    os.execv(sys.executable, command())
