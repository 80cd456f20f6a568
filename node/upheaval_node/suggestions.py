"""Which known name an unknown one was probably meant to be, for the message that refuses it."""

from collections.abc import Iterable
from typing import Final

_CLOSE: Final = 0.75
"""Of `difflib`; two letters of four that have changed places are just close enough."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message: `; did you mean 'x'?`, or nothing where no known name is close."""
    from difflib import get_close_matches  # only when something is refused: commands shall start fast

    names = {choice.lower(): str(choice) for choice in known}
    close = get_close_matches(name.lower(), names, 1, _CLOSE)
    return f"; did you mean {names[close[0]]!r}?" if close else ""
