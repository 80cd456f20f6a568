"""`upheaval doctor`: what runs here."""

import json
import platform
import sys

from upheaval.cli.parsing import JsonOptions
from upheaval_node import __version__
from upheaval_node.compiled import form


def doctor(options: JsonOptions) -> int:
    """A line for each thing, or one object."""
    core = form()
    if options.json:
        fields = {"version": __version__, "python": platform.python_version(), "executable": sys.executable}
        print(json.dumps({**fields, "compiled_modules": core.modules, "why_pure": core.why_pure}))
    else:
        print(f"upheaval {__version__}")
        print(f"Python {platform.python_version()}, {sys.executable}")
        print(f"node and simulation: {core}")
    return 0
