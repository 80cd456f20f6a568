"""`upheaval doctor`: what runs here, and which commands will work."""

import json
import platform
import sys
from dataclasses import asdict

from upheaval.cli.build_commands import DoctorOptions
from upheaval.cli.tables import table
from upheaval.operations.machine import needs
from upheaval_node import __version__
from upheaval_node.compiled import form


def doctor(options: DoctorOptions) -> int:
    """The form of the node, then a row for each thing and a line for what is missing; or one object."""
    core, present = form(), needs(options.area)
    if options.json:
        fields = {"version": __version__, "python": platform.python_version(), "executable": sys.executable}
        modules = {"compiled_modules": core.modules, "why_pure": core.why_pure}
        print(json.dumps({**fields, **modules, "needs": [asdict(need) for need in present]}))
        return 0
    print(f"upheaval {__version__}")
    print(f"Python {platform.python_version()}, {sys.executable}")
    print(f"node and simulation: {core}\n")
    rows = [["area", "need", "there", "used by", "what it is"]]
    rows += [[need.area, need.name, "yes" if need.is_there else "no", need.used_by, need.detail] for need in present]
    print(table(rows))
    for need in present:
        if not need.is_there and need.remedy:
            print(f"{need.area}, {need.name}: {need.remedy}")
    return 0
