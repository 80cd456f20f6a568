"""A run without a readable `cluster.json` has no texts of it: simulated runs never have the file."""

from pathlib import Path

import pytest

from upheaval.records import CLUSTER_FILE, cluster_text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        (b"", ""),
        (b'{"jvm": "\xff"}', ""),
        (b"[]", ""),
        (b'{"jvm": 1}', ""),
        (b"{}", ""),
        (b'{"jvm": "-ea"}', "-ea"),
    ],
)
def test_a_text_is_empty_where_none_is_readable(content: bytes | None, text: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / CLUSTER_FILE).write_bytes(content)
    assert cluster_text(tmp_path, "jvm") == text
