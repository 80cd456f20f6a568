"""`upheaval tool CLUSTER_DIR COMMAND [ARGS]`: Aeron's ClusterTool for a node on this machine or in its container.

Exit statuses are those of ClusterTool, not of the other commands. A node of a cluster of containers is named by its
place in the run folder (`RUN/member-0`); while it runs the command is carried out in its container.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from upheaval.cli.operate_commands import ToolOptions

if TYPE_CHECKING:
    from upheaval_node.tool.__main__ import Options
    from upheaval_node.tool.answer import Answer

PROGRAM = "upheaval tool"


def tool(given: ToolOptions) -> int:
    """Carry out a command; returns ClusterTool's exit status."""
    from upheaval.errors import HarnessError
    from upheaval_node.errors import NodeError
    from upheaval_node.tool.__main__ import finish, parse

    arguments = [*given.words]
    if given.timeout is not None:
        arguments += ["--timeout", given.timeout]
    if given.archive is not None:
        arguments += ["--archive", given.archive]
    arguments += ["--json"] * given.json + ["--help"] * given.wants_help
    options = parse(arguments)

    def work() -> "Answer":
        try:
            with _sealed_again(options):
                return _answer(options)
        except HarnessError as error:
            raise NodeError(str(error)) from error

    return finish(options, work, PROGRAM)


def _sealed_again(options: "Options") -> AbstractContextManager[None]:
    """What an operator changes in the files of a run that was collected is no tampering."""
    from upheaval.records import RunFolder, sealed_again
    from upheaval_node.tool.__main__ import node_folder
    from upheaval_node.tool.commands import COMMANDS

    name = options.words[1] if len(options.words) > 1 else ""
    if name in COMMANDS and COMMANDS[name].changes and "\0" not in options.words[0]:
        return sealed_again(RunFolder(node_folder(options).parent))
    return nullcontext()


def _answer(options: "Options") -> "Answer":
    """In the container of a node that lives in one; else by the system whose node it is, or by its files alone."""
    from upheaval.runtime_names import DOCKER
    from upheaval.runtimes.cluster_file import runtime_of, system_of
    from upheaval_node.tool.__main__ import execute, node_folder

    if options.wants_help or len(options.words) < 2 or "\0" in options.words[0]:
        return execute(options)
    folder = node_folder(options)
    if runtime_of(folder.parent) == DOCKER:
        from upheaval.runtimes.docker.tool import run_tool

        return run_tool(folder.parent, folder.name, options)
    system = system_of(folder.parent)
    if not system:
        return execute(options)
    from upheaval.system import system_named

    return system_named(system).tool(options)
