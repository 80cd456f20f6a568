"""The first process of the image of Aeron's members: one member, whose properties `UPHEAVAL_CONFIG` holds.

See `upheaval.system.aeron_inside`.
"""

import sys

from upheaval.system.aeron_inside import run

if __name__ == "__main__":
    sys.exit(run())
