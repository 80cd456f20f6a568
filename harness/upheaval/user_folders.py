"""Folders of the user outside of any run: the home, and the cache below it or where `XDG_CACHE_HOME` says."""

import os
from pathlib import Path

from upheaval.errors import EnvironmentFault


def home_folder() -> Path:
    """Raises `EnvironmentFault` for a user id without a home, as a container may have it."""
    try:
        return Path.home()
    except RuntimeError:
        raise EnvironmentFault(f"user {os.getuid()} has no home folder: set HOME") from None


def cache_folder() -> Path:
    """Made by what writes into it. Raises as `home_folder` does."""
    wanted = os.environ.get("XDG_CACHE_HOME")
    return (Path(wanted).absolute() if wanted else home_folder() / ".cache") / "upheaval"
