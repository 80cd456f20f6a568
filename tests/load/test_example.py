"""The bank of the examples under its own locust users."""

import shutil
from pathlib import Path

import pytest

from support.load_runs import LoadCommands, names, require_agreement
from support.pages import page_blocks
from upheaval.checkers.promises import Promise

BANK = Path(__file__).resolve().parents[2] / "examples" / "bank" / "bank"
SERVICES = Path(__file__).resolve().parents[1] / "support" / "services"


@pytest.mark.heavy
def test_tellers_at_the_bank(folder: Path, load: LoadCommands) -> None:
    shutil.copytree(BANK, folder.parent / "bank", ignore=shutil.ignore_patterns("__pycache__"))
    service = ("--service", "bank.service:Bank", "--user", "bank.load:Teller")
    result = load.run(*service, "--users", "4", "--rate", "30", "--duration", "3s", "--members", "1")
    assert names(result) == {"deposit", "transfer", "balances"}
    assert require_agreement(result) > 100


@pytest.mark.heavy
def test_the_user_on_the_page_works_at_the_bank(folder: Path, load: LoadCommands) -> None:
    shutil.copytree(BANK, folder.parent / "bank", ignore=shutil.ignore_patterns("__pycache__"))
    (block,) = [block for block in page_blocks("python") if "locust" in block.marks]
    (folder.parent / "page.py").write_text(block.block.text + "\n")
    service = ("--service", "bank.service:Bank", "--user", "page:Teller")
    result = load.run(*service, "--users", "4", "--rate", "60", "--duration", "3s", "--members", "1")
    assert names(result) == {"deposit"}


@pytest.mark.parametrize(
    ("service", "promise", "says"),
    [
        ("Raising", Promise.SERVICES_RAISED_NOTHING, "RuntimeError: half done, at locks.py:"),
        pytest.param(
            "Timed",
            Promise.STATES_AGREE,
            " of message 1 is the first that differs; ['",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_a_service_with_a_bug_is_no_success(
    service: str, promise: Promise, says: str, folder: Path, load: LoadCommands
) -> None:
    for module in ("locks.py", "lock_users.py"):
        shutil.copy(SERVICES / module, folder.parent)
    names_of = ("--service", f"locks:{service}", "--user", "lock_users:Locker")
    result = load.run(*names_of, "--users", "4", "--rate", "60", "--duration", "4s", "--timeout", "1", status=1)
    broken = {each["promise"]: each["detail"] for each in result["promises"] if each["verdict"] == "invalid"}
    # A clock gives another state in each replay, too.
    assert broken.keys() - {Promise.SNAPSHOT_IS_REPLAY} == {promise}
    assert says in broken[promise]
