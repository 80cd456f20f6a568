"""What tasks of users raise, as every front end shows it."""

import traceback
from pathlib import Path
from typing import Final

import upheaval_node

TEXTS_MAX: Final = 20
"""How many different texts are kept."""
_OURS: Final = (str(Path(__file__).parents[1]), str(Path(upheaval_node.__file__ or "").parent))


def text_of(error: Exception) -> str:
    """One line: the exception, and the last line of the user's own code in its traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_OURS)] or frames
    words = " ".join(str(error).split())
    return (
        f"{type(error).__name__}{': ' if words else ''}{words} ({own[-1].filename}:{own[-1].lineno} in {own[-1].name})"
    )
