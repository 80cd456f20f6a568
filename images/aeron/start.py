"""The first process of the image of Aeron's members: one member, or with `backup` a backup, of which `UPHEAVAL_CONFIG`
holds the properties; with `bridge` a bridge for clients.

See `upheaval.system.aeron_inside`.
"""

import sys

from upheaval.system.aeron_inside import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
