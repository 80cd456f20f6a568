"""The bank of the examples under its own locust users."""

import shutil
from pathlib import Path

import pytest

from support.load_runs import LoadCommands, names, require_agreement

BANK = Path(__file__).resolve().parents[2] / "examples" / "bank" / "bank"


@pytest.mark.heavy
def test_tellers_at_the_bank(folder: Path, load: LoadCommands) -> None:
    shutil.copytree(BANK, folder.parent / "bank", ignore=shutil.ignore_patterns("__pycache__"))
    service = ("--service", "bank.service:Bank", "--user", "bank.load:Teller")
    result = load.run(*service, "--users", "4", "--rate", "30", "--duration", "3s", "--members", "1")
    assert result["verdict"] == "valid"
    assert names(result) == {"deposit", "transfer", "balances"}
    assert require_agreement(result) > 100
