"""What the commands' options are made of: parsers, commands in groups, and the types of numbers.

Nothing here imports more than the standard library, so that `upheaval --help` and a wrong option answer at once. The
names of runtimes, components, notations, models and questions therefore are repeated here; a test compares them with
the originals.
"""

import argparse
import json
import textwrap
from math import isfinite
from pathlib import Path
from typing import Any, Final, NoReturn

from upheaval.cli.lazy import Command
from upheaval_chaos.exit_status import CommandStatus

LIVE_RUNTIMES: Final = ("process", "docker")
RUNTIMES: Final = ("simulated", *LIVE_RUNTIMES)
LAYOUTS: Final = ("together", "split")
COMPONENTS: Final = ("archive", "consensus", "service")
NOTATIONS: Final = ("plain", "columns")
LOG_LEVELS: Final = ("info", "warning", "error")
KEY_MODELS: Final = ("workbench", "register", "cas-register", "list", "kv")
QUESTIONS: Final = (
    "availability",
    "failovers",
    "latency",
    "catch-ups",
    "flakes",
    "regressions",
    "coverage",
    "failures",
    "slow-elections",
)
CONFIGURATIONS_MAX: Final = 1_000_000
SYNC_LEVELS: Final = (0, 1, 2)
LONGEST_S: Final = 100_000
"""No time-out is longer."""

_COMMAND: Final = "COMMAND"
_WIDTH: Final = 100


class Parser(argparse.ArgumentParser):
    """Argument errors as one line."""

    def error(self, message: str) -> NoReturn:
        """Print the line and exit with status 2."""
        self.exit(CommandStatus.REFUSED, f"upheaval: {message} (see `{self.prog} --help`)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """What is not known is refused by the parser that was given it: that above it would name its own help."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._refusal_of(unknown[0]))
        return found, unknown

    def _refusal_of(self, argument: str) -> str:
        from upheaval_node.suggestions import did_you_mean

        if not argument.startswith("-"):
            return f"unexpected argument {argument!r}"
        name = argument.partition("=")[0]
        return f"unknown option {name!r}{did_you_mean(name, self._option_string_actions)}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """The one that was meant, for a wrong command instead of a list of all."""
        if action.choices is None or value in action.choices:
            return
        from upheaval_node.suggestions import did_you_mean

        hint = did_you_mean(str(value), map(str, action.choices))
        if action.metavar == _COMMAND:
            raise argparse.ArgumentError(None, f"unknown command {value!r}{hint}")
        known = ", ".join(map(str, action.choices))
        raise argparse.ArgumentError(action, f"invalid choice: {value!r}: use one of {known}{hint}")


class Commands:
    """The commands of a parser, which its help lists by group, in the order in which they were added."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._description = parser.description or ""
        parser.usage = f"{parser.prog} [-h] [--version] {_COMMAND} ..."
        self._subparsers = parser.add_subparsers(
            prog=parser.prog, metavar=_COMMAND, required=True, parser_class=Parser, help=argparse.SUPPRESS
        )

    def group(self, title: str) -> None:
        """The commands that are added next belong to this group."""
        self._say(f"\n{title}:")

    def add(self, name: str, text: str, run: Command | None = None, *, add_help: bool = True) -> Parser:
        """A command; `run` is what it does, unless its subcommands say so. `text` is one line of its help."""
        self._say("\n".join(textwrap.wrap(text, _WIDTH, initial_indent=f"  {name:<14}", subsequent_indent=" " * 16)))
        command = self._subparsers.add_parser(name, description=described(text), add_help=add_help)
        if run is not None:
            command.set_defaults(command=run)
        return command

    def _say(self, lines: str) -> None:
        self._description += f"\n{lines}"
        self._parser.description = self._description


def described(text: str) -> str:
    """A line of help as the description of the command itself: a sentence."""
    return f"{text[0].upper()}{text[1:]}."


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """The option for the cluster that a command is about."""
    parser.add_argument("--dir", required=True, type=Path, help="the cluster's folder")


def add_member(parser: argparse.ArgumentParser) -> None:
    """The member that a command is about."""
    parser.add_argument("member", type=int, metavar="MEMBER", help="the member's id, from 0 on")


def add_model(parser: argparse.ArgumentParser) -> None:
    """What the answers of a user's own service are judged by."""
    parser.add_argument(
        "--model",
        metavar="CLASS",
        help="module:Class of what the service should answer, or a module with promises",
    )


def add_system(parser: argparse.ArgumentParser) -> None:
    """What the members are."""
    parser.add_argument(
        "--system", metavar="NAME[:VERSION]", help="what the members are: upheaval (our node, default) or aeron"
    )


def add_json(parser: argparse.ArgumentParser, text: str = "print JSON instead of text") -> None:
    """The option for output that programs read."""
    parser.add_argument("--json", action="store_true", help=text)


def bug(text: str) -> str:
    """The name of a bug to plant. It changes objects, so the sources run and no compiled modules."""
    from upheaval_node.compiled import use_pure

    use_pure("a bug is planted")
    return text


def recorded_run(text: str) -> Path:
    """The folder of a run to make again, with the bug that was planted in it."""
    try:
        manifest = json.loads((Path(text) / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        manifest = None
    if isinstance(manifest, dict) and manifest.get("planted"):
        bug(str(manifest["planted"]))
    return Path(text)


def seconds(text: str) -> float:
    """A time-out."""
    value = moment(text)
    if not 0 < value < LONGEST_S:
        raise argparse.ArgumentTypeError(f"expected seconds above 0 and below {LONGEST_S}, got {text!r}")
    return value


def above_zero(text: str) -> int:
    """A number of things."""
    value = int(text) if text.isascii() and text.isdigit() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return value


def question(text: str) -> str:
    """What people ask of a lake."""
    if text not in QUESTIONS:
        from upheaval_node.suggestions import did_you_mean

        hint = did_you_mean(text, QUESTIONS)
        raise argparse.ArgumentTypeError(f"unknown question {text!r}: use one of {', '.join(QUESTIONS)}{hint}")
    return text


def moment(text: str) -> float:
    """A point in time of a run, in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise argparse.ArgumentTypeError(f"expected a number of seconds, got {text!r}")
    return value


def age(text: str) -> float:
    """How long ago, in seconds: a number with the unit m, h or d."""
    factor = {"m": 60, "h": 3600, "d": 86_400}.get(text[-1:])
    if factor is None or not text[:-1].isascii() or not text[:-1].isdigit():
        raise argparse.ArgumentTypeError(f"expected a number with m, h or d, such as 7d, got {text!r}")
    return float(int(text[:-1]) * factor)


def duration(text: str) -> float:
    """Seconds, or a number with the unit s, m or h."""
    factor = {"s": 1, "m": 60, "h": 3600}.get(text[-1:])
    return seconds(text) if factor is None else seconds(text[:-1]) * factor
