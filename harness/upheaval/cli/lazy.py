"""Commands that are imported when they are called, so that `upheaval --help` and a wrong option answer at once."""

import argparse
import importlib
from collections.abc import Callable

Command = Callable[[argparse.Namespace], int]
"""What a command does with its options; returns the exit status."""


def lazy(target: str, /, *fields: str, **named: str) -> Command:
    """The command that `package.module:function` names, which may belong to a package above this one.

    The function takes the options as they are, or only the values of those that `fields` and `named` name.
    """
    module, _, name = target.partition(":")

    def call(options: argparse.Namespace) -> int:
        function: Callable[..., int] = getattr(importlib.import_module(module), name)
        if not fields and not named:
            return function(options)
        values = [getattr(options, field) for field in fields]
        return function(*values, **{parameter: getattr(options, field) for parameter, field in named.items()})

    return call
