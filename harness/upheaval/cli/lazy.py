"""Commands that are imported when they are called, so that `upheaval --help` and a wrong option answer at once."""

import argparse
import importlib
from collections.abc import Callable

Command = Callable[[argparse.Namespace], int]
"""What a command does with its options; returns the exit status."""


def lazy(target: str) -> Command:
    """The command that `package.module:function` names, which may belong to a package above this one."""
    module, _, name = target.partition(":")

    def call(options: argparse.Namespace) -> int:
        status: int = getattr(importlib.import_module(module), name)(options)
        return status

    return call
