"""The first process of the node image: one member, or a node beside the members, configured by the environment.

`UPHEAVAL_CONFIG` holds the member's configuration as JSON (see `upheaval_node.member_config`; `folder` is the volume
unless it is given). `UPHEAVAL_MEMBER` is the member's id, for configurations that all members share. Without
`UPHEAVAL_CONFIG`, a `config.json` in the volume is used.

With `backup` or `standby` as its first argument it is that, configured by `UPHEAVAL_BACKUP_CONFIG` (see
`upheaval_node.backup.config`) or `UPHEAVAL_STANDBY_CONFIG` in the same way.
"""

import importlib
import json
import os
import sys
import uuid
from pathlib import Path

from upheaval_node.runtime import main as member

FOLDER = Path("/var/lib/upheaval")
USAGE = 2
COMPANIONS = ("backup", "standby")


def configure(text: str, member_id: str | None) -> None:
    """Put the configuration where the member reads it."""
    values = {"folder": str(FOLDER), **json.loads(text)}
    if member_id is not None:
        values["member_id"] = int(member_id)
    # The components of a member share the volume, and their containers start at the same time.
    new = FOLDER / f"config.json.{uuid.uuid4().hex}"
    new.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    new.replace(FOLDER / "config.json")


def configure_from_environment(variable: str = "UPHEAVAL_CONFIG") -> bool:
    """Whether the environment's configuration, if it has one, could be used; says why not."""
    text = os.environ.get(variable)
    try:
        if text is not None:
            configure(text, os.environ.get("UPHEAVAL_MEMBER"))
    except (OSError, ValueError, TypeError) as error:
        print(f"upheaval-node: {variable} cannot be used: {error}", file=sys.stderr)
        return False
    return True


def run_companion(kind: str, arguments: list[str]) -> int:
    """A node beside the members; returns its exit status."""
    if not configure_from_environment(f"UPHEAVAL_{kind.upper()}_CONFIG"):
        return USAGE
    status: int = importlib.import_module(f"upheaval_node.runtime.{kind}").main(
        ["--config", str(FOLDER / "config.json"), *arguments]
    )
    return status


def main() -> int:
    """Configure and run the member, or what the first argument names; returns its exit status."""
    if sys.argv[1:2] and sys.argv[1] in COMPANIONS:
        return run_companion(sys.argv[1], sys.argv[2:])
    if not configure_from_environment():
        return USAGE
    return member.main(["--config", str(FOLDER / "config.json"), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
