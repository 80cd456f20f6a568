"""The first process of the node image: one member, configured by the environment.

`UPHEAVAL_CONFIG` holds the member's configuration as JSON (see `upheaval_node.member_config`; `folder` is the volume
unless it is given). Without it, a `config.json` in the volume is used.
"""

import json
import os
import sys
from pathlib import Path

from upheaval_node.runtime.main import main

FOLDER = Path("/var/lib/upheaval")
USAGE = 2


def configure(text: str) -> None:
    """Put the configuration where the member reads it."""
    values = {"folder": str(FOLDER), **json.loads(text)}
    new = FOLDER / "config.json.new"
    new.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    new.replace(FOLDER / "config.json")


if __name__ == "__main__":
    text = os.environ.get("UPHEAVAL_CONFIG")
    try:
        if text is not None:
            configure(text)
    except (OSError, ValueError, TypeError) as error:
        print(f"upheaval-node: UPHEAVAL_CONFIG cannot be used: {error}", file=sys.stderr)
        sys.exit(USAGE)
    sys.exit(main(["--config", str(FOLDER / "config.json"), *sys.argv[1:]]))
