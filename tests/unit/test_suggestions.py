"""What was meant is named where it is close, and nothing where it is not."""

import pytest

from upheaval_node.suggestions import did_you_mean

KNOWN = ["wait", "wheel", "JSONDecoder", "leader-killed"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("wiat", "; did you mean 'wait'?"),
        ("jsondecodr", "; did you mean 'JSONDecoder'?"),
        ("leader-kiled", "; did you mean 'leader-killed'?"),
        ("nowhere", ""),
        ("", ""),
    ],
)
def test_the_close_one_or_none(name: str, meant: str) -> None:
    assert did_you_mean(name, KNOWN) == meant
