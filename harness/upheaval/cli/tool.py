"""`upheaval tool CLUSTER_DIR COMMAND [ARGS]`: Aeron's ClusterTool for a node on this machine or in its container.

Exit statuses are those of ClusterTool, not of the other commands. A node of a cluster of containers is named by its
place in the run folder (`RUN/member-0`); while it runs the command is carried out in its container.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from upheaval_node.tool.__main__ import Options
    from upheaval_node.tool.answer import Answer

PROGRAM = "upheaval tool"


def tool(given: argparse.Namespace) -> int:
    """Carry out a command; returns ClusterTool's exit status."""
    from upheaval.errors import HarnessError
    from upheaval_node.errors import NodeError
    from upheaval_node.tool.__main__ import finish, main, parse

    arguments = list(given.words)
    for name in ("timeout", "archive"):
        if getattr(given, name) is not None:
            arguments += [f"--{name}", getattr(given, name)]
    arguments += ["--json"] * given.json + ["--help"] * given.wants_help
    options = parse(arguments)
    _unseal(options)
    place = _place_in_containers(options)
    if place is None:
        return main(arguments, PROGRAM)
    from upheaval.runtimes.docker.tool import run_tool

    def work() -> "Answer":
        try:
            return run_tool(*place, options)
        except HarnessError as error:
            raise NodeError(str(error)) from error

    return finish(options, work, PROGRAM)


def _unseal(options: "Options") -> None:
    """What an operator changes in the files of a run that was collected is no tampering."""
    from upheaval.records import RunFolder
    from upheaval_node.tool.commands import COMMANDS

    name = options.words[1] if len(options.words) > 1 else ""
    if name in COMMANDS and COMMANDS[name].changes and "\0" not in options.words[0]:
        RunFolder(_node_folder(options).parent).unseal()


def _node_folder(options: "Options") -> Path:
    folder = Path(options.words[0]).absolute()
    return folder.parent if folder.name == "cluster" else folder


def _place_in_containers(options: "Options") -> tuple[Path, str] | None:
    """Run folder and name of a node that lives in a container; None for a folder of this machine."""
    if options.problem or options.wants_help or len(options.words) < 2 or "\0" in options.words[0]:
        return None
    from upheaval.runtimes.cluster_file import runtime_of

    folder = _node_folder(options)
    return (folder.parent, folder.name) if runtime_of(folder.parent) == "docker" else None
