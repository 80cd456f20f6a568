"""The first process of the node image: one member, configured by the environment.

`UPHEAVAL_CONFIG` holds the member's configuration as JSON (see `upheaval_node.member_config`; `folder` is the volume
unless it is given). `UPHEAVAL_MEMBER` is the member's id, for configurations that all members share. Without
`UPHEAVAL_CONFIG`, a `config.json` in the volume is used.
"""

import json
import os
import sys
from pathlib import Path

from upheaval_node.runtime import main as member

FOLDER = Path("/var/lib/upheaval")
USAGE = 2


def configure(text: str, member_id: str | None) -> None:
    """Put the configuration where the member reads it."""
    values = {"folder": str(FOLDER), **json.loads(text)}
    if member_id is not None:
        values["member_id"] = int(member_id)
    new = FOLDER / "config.json.new"
    new.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    new.replace(FOLDER / "config.json")


def configure_from_environment() -> bool:
    """Whether the environment's configuration, if it has one, could be used; says why not."""
    text = os.environ.get("UPHEAVAL_CONFIG")
    try:
        if text is not None:
            configure(text, os.environ.get("UPHEAVAL_MEMBER"))
    except (OSError, ValueError, TypeError) as error:
        print(f"upheaval-node: UPHEAVAL_CONFIG cannot be used: {error}", file=sys.stderr)
        return False
    return True


def main() -> int:
    """Configure and run the member; returns its exit status."""
    if not configure_from_environment():
        return USAGE
    return member.main(["--config", str(FOLDER / "config.json"), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
