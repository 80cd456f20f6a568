"""`upheaval ui`: the runs of a folder and its clusters in a browser."""

from upheaval.cli.answers import answer
from upheaval.cli.cluster_commands import UiOptions
from upheaval.cli.new_folder import runs_folder
from upheaval.errors import EnvironmentFault
from upheaval.extras import install_line


def ui(options: UiOptions) -> int:
    """Print the address, and serve until it is interrupted. Raises `EnvironmentFault` without the extra."""
    try:
        from upheaval.ui.server import PageServer
    except ModuleNotFoundError as error:
        raise EnvironmentFault(f"{error.name} is not installed: {install_line('ui')}") from error
    server = PageServer(options.dir or runs_folder(), port=options.port, is_read_only=options.read_only)
    answer(server.address, {"address": server.address, "port": server.port}, as_json=options.json)
    server.run()
    return 0
