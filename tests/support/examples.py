"""How many examples hypothesis draws for a test: all at night, and a quarter of them otherwise."""

from typing import Final

from hypothesis import settings

NIGHT: Final = "night"
"""The profile of a run that includes the tests marked `nightly`."""
_SHARE: Final = 4


def examples(count: int) -> settings:
    """The settings of a test with `count` examples at night. Examples differ from run to run, so that days add up."""
    is_night = settings.get_current_profile_name() == NIGHT
    return settings(max_examples=count if is_night else count // _SHARE)
