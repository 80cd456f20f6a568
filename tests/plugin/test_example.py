"""Each example is a stranger's repository: its tests run against the installed wheel, on each runtime."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from support.stranger import EXAMPLES, copy_of, pytest_in

SERVICE = Path("locks") / "service.py"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("example", "tests", "options"),
    [
        # Those of the bank run on processes as well, and those of the other examples on simulated members.
        pytest.param("bank", 4, ("simulated",), marks=pytest.mark.nightly),
        pytest.param("bank", 4, ("process",), marks=pytest.mark.nightly),
        ("bank", 4, ("process", "-n", "2")),
        ("locks", 6, ("simulated", "--seeds", "1..2", "-n", "2")),
        pytest.param("locks", 3, ("process",), marks=pytest.mark.nightly),
        ("orders", 3, ("simulated",)),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else str(each),
)
def test_the_tests_of_the_example_pass(
    tmp_path: Path, python: Path, example: str, tests: int, options: tuple[str, ...]
) -> None:
    folder = copy_of(example, tmp_path / example)
    done = pytest_in(folder, python, "--junit-xml", "report.xml", "--runtime", *options, timeout_s=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(ET.parse(folder / "report.xml").findall(".//testcase")) == tests
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("self.tokens.get(lock, 0) + 2", "linearizable: call request (operation "),
        (
            "min(self.tokens.get(lock, 0) + 1, 15)",
            "a fencing token is never given twice and never goes back: Assertion",
        ),
    ],
)
def test_a_bug_that_the_tests_themselves_do_not_see_is_named(
    tmp_path: Path, python: Path, wrong: str, says: str
) -> None:
    folder, right = copy_of("locks", tmp_path / "locks"), "self.tokens.get(lock, 0) + 1"
    text = (folder / SERVICE).read_text()
    assert right in text
    (folder / SERVICE).write_text(text.replace(right, wrong))
    test = "tests/test_locks.py::test_a_lock_has_one_holder_whoever_leads"
    done = pytest_in(folder, python, "--runtime", "simulated", test, timeout_s=240)
    assert done.returncode == 1
    assert f"invalid: {says}" in done.stdout


@pytest.mark.parametrize("example", ["bank", "locks", "orders", "java-auction", "java-rooms"])
def test_the_example_uses_the_public_interface_only(example: str) -> None:
    sources = [path.read_text() for path in (EXAMPLES / example).rglob("*.py")]
    imported = {line for text in sources for line in re.findall(r"^ *(?:from|import) +upheaval\S*", text, re.M)}
    assert imported == {"from upheaval"}
