"""`upheaval ui`: the runs of a folder and its clusters in a browser, or the runs of a lake."""

from typing import TYPE_CHECKING

from upheaval.cli.answers import answer
from upheaval.cli.cluster_commands import UiOptions
from upheaval.cli.new_folder import runs_folder
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.extras import install_line
from upheaval_chaos.options import Command

if TYPE_CHECKING:
    from upheaval.ui.places import Place


def ui(options: UiOptions) -> int:
    """Print the address, and serve until it is interrupted. Raises as `serve` does, and `UsageError` for two places."""
    if options.lake is None:
        return serve(options)
    if options.dir is not None:
        raise UsageError("name a folder of runs with --dir, or a lake with --lake, and not both")
    # The pipeline is above this package.
    return Command(UiOptions, "upheaval_pipeline.commands:ui_of_lake").function(options)


def serve(options: UiOptions, lake: "Place | None" = None) -> int:
    """Serve a lake, read only, or else the folder of the options. Raises `EnvironmentFault` without the extra."""
    try:
        from upheaval.ui.server import PageServer
    except ModuleNotFoundError as error:
        raise EnvironmentFault(f"{error.name} is not installed: {install_line('ui')}") from error
    place = lake if lake is not None else options.dir or runs_folder()
    server = PageServer(place, port=options.port, is_read_only=options.read_only or lake is not None)
    answer(server.address, {"address": server.address, "port": server.port}, as_json=options.json)
    server.run()
    return 0
