"""`--help`: commands by task, a text for everything that can be given, and nothing heavy imported for it."""

import re
import shlex
import subprocess
import sys
from itertools import pairwise

import pytest

from upheaval.checkers.history import search
from upheaval.checkers.history.models import table
from upheaval.cli import parsing
from upheaval.cli.examples import EXAMPLES
from upheaval.cli.main import main, make_parser
from upheaval.records import NOTATIONS, SPLIT, TOGETHER, exported
from upheaval.system import COMPONENTS

GROUPS = ["cluster", "faults", "judge", "operate", "build"]
NESTED = [
    "client register",
    "client register read",
    "client register write",
    "client register cas",
    "client append",
    "client echo",
    "client call",
    "images list",
    "images build",
    "images check",
    "images own",
    "certificates create",
    "certificates reload",
    "credentials add",
    "credentials reload",
    "lake info",
    "lake optimize",
    "lake drop",
    "lake export",
    "lake migrate",
]


def help_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def without_text(text: str) -> list[str]:
    """What the help names without a word about it: neither on its line nor on the next."""
    lines = [*re.split(r"^examples?:$", text, flags=re.MULTILINE)[0].splitlines(), ""]
    return [
        line
        for line, following in pairwise(lines)
        if re.match(r" {2,4}[-a-z{]", line) and not re.search(r"\S {2,}\S", line) and not following.startswith(" " * 20)
    ]


def test_commands_are_listed_by_task(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys)
    assert re.findall(r"^(\w+):$", text, re.MULTILINE) == [*GROUPS, "options"]
    assert len(re.findall(r"^  [a-z]+ {2,}\S", text, re.MULTILINE)) == 59


def test_everything_that_can_be_given_has_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    commands = set(re.findall(r"^  ([a-z]+) {2,}\S", help_of(capsys), re.MULTILINE)) - {"tool"}
    found = {words: without_text(help_of(capsys, *words.split())) for words in sorted([*commands, *NESTED])}
    assert {words: lines for words, lines in found.items() if lines} == {}


def test_help_fits_80_columns_and_ends_with_examples(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for command in (*EXAMPLES, ""):
        text = help_of(capsys, *command.split())
        assert [line for line in text.splitlines() if len(line) > 80] == [], command
    assert text.endswith("143 after SIGTERM\n")
    assert help_of(capsys, "report").endswith(
        "examples:\n  upheaval report\n  upheaval report runs/7 --out page.html\n"
    )


def test_each_command_has_examples_that_it_accepts(capsys: pytest.CaptureFixture[str]) -> None:
    commands = set(re.findall(r"^  ([a-z-]+) {2,}\S", help_of(capsys).partition("options:")[0], re.MULTILINE))
    groups = {"client", "images", "certificates", "credentials", "lake"}
    leaves = {words for words in NESTED if words != "client register"}
    assert set(EXAMPLES) == (commands - groups - {"tool"}) | leaves
    for command, examples in EXAMPLES.items():
        for example in examples:
            words = iter(example.split())
            assert all(word in words for word in command.split()), example
            make_parser().parse_args(shlex.split(example.partition(" > ")[0]))


def test_the_help_imports_nothing_of_the_node_and_the_harness() -> None:
    program = "import sys; from upheaval.cli.main import main\ntry: main(['--help'])\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    ours = [name for name in done.stdout.splitlines()[-1].split() if name.startswith("upheaval")]
    allowed = re.compile(
        r"upheaval(\.errors|\.runtime_names|\.cli(\.main|\.output|\.parsing|\.examples|\.presentation|\.\w+_commands)?)?"
        r"|upheaval_chaos(\.errors|\.exit_status|\.options|\.programs)?|upheaval_node(\.errors|\.compiled)?"
    )
    assert [name for name in ours if not allowed.fullmatch(name)] == []


def test_the_choices_are_those_of_the_harness() -> None:
    assert parsing.COMPONENTS == COMPONENTS
    assert parsing.NOTATIONS == NOTATIONS
    assert tuple(table.KEY_MODELS) == parsing.KEY_MODELS
    assert tuple(exported.FORMATS) == parsing.EXPORT_FORMATS
    assert tuple(exported.KINDS) == parsing.EXPORT_KINDS
    assert parsing.CONFIGURATIONS_MAX == search.CONFIGURATIONS_MAX
    assert parsing.LAYOUTS == (TOGETHER, SPLIT)
