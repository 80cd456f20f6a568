"""The example is a stranger's repository: its tests run against the installed wheel, on each runtime."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from support.stranger import BANK, copy_of_the_bank, pytest_in


@pytest.mark.heavy
@pytest.mark.parametrize("options", [("simulated",), ("process",), ("process", "-n", "2")], ids=" ".join)
def test_the_tests_of_the_example_pass(tmp_path: Path, python: Path, options: tuple[str, ...]) -> None:
    bank = copy_of_the_bank(tmp_path / "bank")
    done = pytest_in(bank, python, "--junit-xml", "report.xml", "--runtime", *options, timeout_s=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(ET.parse(bank / "report.xml").findall(".//testcase")) == 4
    assert not (bank / "runs").exists()


def test_the_example_uses_the_public_interface_only() -> None:
    sources = [path.read_text() for path in BANK.rglob("*.py")]
    imported = {line for text in sources for line in re.findall(r"^ *(?:from|import) +upheaval\S*", text, re.M)}
    assert imported == {"from upheaval"}
