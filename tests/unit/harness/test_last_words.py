"""What a process that ended said last, as a failed start quotes it."""

from pathlib import Path

import pytest

from upheaval.runtimes import process

JAVA = """starting
java.lang.IllegalStateException: active mark file detected
\tat org.agrona.MarkFile.mapExistingMarkFile(MarkFile.java:1)
\tat upheaval.Member.main(Member.java:1)
Caused by: java.io.IOException: disk full
\t... 2 more
"""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (JAVA, "Caused by: java.io.IOException: disk full"),
        (JAVA[: JAVA.index("Caused")], "java.lang.IllegalStateException: active mark file detected"),
        ("one\ntwo\n\n", "two"),
        ("", "it printed nothing"),
    ],
)
def test_frames_of_java_are_not_what_was_said_last(tmp_path: Path, said: str, expected: str) -> None:
    (tmp_path / "member.log").write_text(said, encoding="utf-8")
    assert process.last_line(tmp_path / "member.log", 0) == expected


def test_what_an_earlier_process_said_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "member.log").write_text("earlier\n", encoding="utf-8")
    assert process.last_line(tmp_path / "member.log", len("earlier\n")) == "it printed nothing"


def test_a_log_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    assert process.last_line(tmp_path / "member.log", 0) == "its log cannot be read"
