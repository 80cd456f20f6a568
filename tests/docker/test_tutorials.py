"""Tutorials work for a reader who has the Debian packages that they name, and the wheel: in an empty container."""

import pytest

import tutorials_in_container
from tutorials_in_container import MAVEN, PLACEHOLDER, TUTORIALS, WHEELS, Tutorial, count_of, script_of


@pytest.mark.heavy
@pytest.mark.nightly
def test_they_work_in_an_empty_container(capsys: pytest.CaptureFixture[str]) -> None:
    status = tutorials_in_container.main([])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert [line.split()[-1] for line in printed.out.splitlines()[2:]] == ["works"] * len(TUTORIALS)


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda tutorial: tutorial.name)
def test_their_scripts_name_nothing_of_a_clone(tutorial: Tutorial) -> None:
    script = script_of(tutorial.steps(), "upheaval.whl")
    assert f"pip install {WHEELS}/upheaval.whl" in script
    assert [word for word in (PLACEHOLDER, "make ", "images/", "examples/", MAVEN) if word in script] == []
    assert count_of(tutorial.steps()) > 5
