"""How commands print: the options that all of them have."""

from dataclasses import dataclass
from typing import Final

from upheaval_chaos.options import option

COLORS: Final = ("auto", "always", "never")


@dataclass(frozen=True)
class Presentation:
    """What `--color`, `--quiet` and `--verbose` ask for."""

    color: str = option(
        "--color",
        choices=COLORS,
        default=COLORS[0],
        help="auto (default): on a terminal; FORCE_COLOR turns colours on everywhere, NO_COLOR off",
    )
    is_quiet: bool = option("-q", "--quiet", is_exclusive=True, help="no progress; only the first line of a verdict")
    is_verbose: bool = option(
        "-v", "--verbose", is_exclusive=True, help="every promise of a verdict, and the traceback of an error"
    )


AS_USUAL: Final = Presentation(COLORS[0], is_quiet=False, is_verbose=False)
