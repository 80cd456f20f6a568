"""`upheaval completion`: what bash offers after some words, and the same places in the scripts of other shells."""

import shlex
import shutil
import subprocess

import pytest

from upheaval.cli.main import main
from upheaval.runtime_names import LIVE_RUNTIMES, RUNTIMES

ASK = """
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=()
_upheaval
echo "${{COMPREPLY[@]}}"
"""


def script(capsys: pytest.CaptureFixture[str], shell: str) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def bash(text: str) -> str:
    program = shutil.which("bash")
    assert program is not None
    done = subprocess.run([program, "--norc", "-uc", text], capture_output=True, check=True)
    return done.stdout.decode()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ca"], {"campaign", "carry"}),
        (["client", "--dir", "x", "reg"], {"register"}),
        (["client", "register", "c"], {"cas"}),
        (["run", "--runtime", ""], set(RUNTIMES)),
        (["up", "--runtime", ""], set(LIVE_RUNTIMES)),
        (["verify", "--color", "a"], {"auto", "always"}),
        (["run", "leader-killed", "--see"], {"--seed"}),
        (["completion", "b"], {"bash"}),
        # A former spelling is accepted and not offered.
        (["report", "--out"], {"--out"}),
    ],
)
def test_bash_offers_what_can_follow(capsys: pytest.CaptureFixture[str], words: list[str], offered: set[str]) -> None:
    text = script(capsys, "bash") + ASK.format(words=shlex.join(["upheaval", *words]))
    assert set(bash(text).split()) == offered


def test_what_is_no_command_is_left_to_the_names_of_files(capsys: pytest.CaptureFixture[str]) -> None:
    text = script(capsys, "bash")
    assert "complete -o default -F _upheaval upheaval\n" in text
    assert bash(text + ASK.format(words="upheaval verify runs/")).split() == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_the_same_places(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    text = script(capsys, shell)
    assert all(f"upheaval {place}" in text for place in ("run", "client register cas", "images build", "completion"))
    assert " ".join(RUNTIMES) in text
