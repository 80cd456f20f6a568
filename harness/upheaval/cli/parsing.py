"""What the commands' options are made of: parsers, commands in groups, and the types of numbers.

Nothing here imports more than the standard library, so that `upheaval --help` and a wrong option answer at once. The
names of components, notations, models and questions therefore are repeated here; a test compares them with the
originals.
"""

import argparse
import json
import shutil
import textwrap
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from upheaval.cli.examples import examples_text
from upheaval.cli.presentation import Presentation
from upheaval_chaos.exit_status import CommandStatus
from upheaval_chaos.options import Command, add_command, add_options, add_shared_options, option

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LAYOUTS: Final = ("together", "split")
COMPONENTS: Final = ("archive", "consensus", "service")
NOTATIONS: Final = ("plain", "columns")
LOG_LEVELS: Final = ("info", "warning", "error")
KEY_MODELS: Final = ("workbench", "register", "cas-register", "list", "kv", "mutex", "set", "queue")
EXPORT_FORMATS: Final = ("knossos", "porcupine")
EXPORT_KINDS: Final = ("register", "list")
QUESTIONS: Final = (
    "availability",
    "slo",
    "failovers",
    "latency",
    "catch-ups",
    "flakes",
    "regressions",
    "changes",
    "compare",
    "trend",
    "coverage",
    "campaigns",
    "campaign-faults",
    "failures",
    "preceded-by",
    "slow-elections",
)
ALARMS: Final = ("slo", "flakes", "regressions", "changes", "compare", "failures", "preceded-by")
"""The questions whose answers may be bad news."""
TABLE_FORMATS: Final = ("csv", "json", "parquet")
LAKE_ENGINES: Final = ("auto", "duckdb", "spark")
INGEST_ENGINES: Final = ("auto", "python", "spark")
CONFIGURATIONS_MAX: Final = 1_000_000
SYNC_LEVELS: Final = (0, 1, 2)
LONGEST_S: Final = 100_000
"""No time-out is longer."""

_COMMAND: Final = "COMMAND"
_WIDTH: Final = 80
_MARGIN: Final = 2
_TEXT_COLUMN: Final = 26


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help of 80 columns at most; description and examples as they are written."""

    def __init__(self, prog: str, **keywords: Any) -> None:
        width = min(shutil.get_terminal_size().columns, _WIDTH) - _MARGIN
        super().__init__(prog, **{"width": width, "max_help_position": _TEXT_COLUMN, **keywords})


class Parser(argparse.ArgumentParser):
    """Argument errors as one line."""

    def error(self, message: str) -> NoReturn:
        """Print the line and exit with status 2."""
        self.exit(CommandStatus.REFUSED, f"upheaval: {message} (see `{self.prog} --help`)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """What is not known is refused by the parser that was given it: that above it would name its own help."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._refusal_of(unknown[0]))
        return known, unknown

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
    """The commands of a program, which its help lists by group, or the actions of a command; in the order in which
    they were added.
    """

    def __init__(self, parser: Parser, noun: str = _COMMAND) -> None:
        self._parser = parser
        self._lists = noun == _COMMAND
        shown: dict[str, Any] = {"title": f"{noun.lower()}s"}
        if self._lists:
            parser.usage = f"{parser.prog} [-h] [--version] {noun} ..."
            shown = {"prog": parser.prog, "help": argparse.SUPPRESS}
        self._subparsers = parser.add_subparsers(metavar=noun, required=True, parser_class=Parser, **shown)

    def group(self, title: str) -> None:
        """The commands that are added next belong to this group."""
        self._list(f"\n{title}:")

    def add(
        self,
        name: str,
        text: str,
        options: type["DataclassInstance"],
        target: str,
        *,
        ends_with_reader: bool = False,
        prints_verdict: bool = False,
        add_help: bool = True,
        **given: Any,
    ) -> None:
        """A command. `text` is one line of its help; `target` a function in this package, or one with its package's
        name; `given` as of `add_options`. One without help takes the options of all commands for words of its own.
        """
        target = target if target.startswith("upheaval") else f"upheaval.cli.{target}"
        parser = self._new(name, text, add_help=add_help)
        add_command(parser, Command(options, target, ends_with_reader), **given)
        if prints_verdict:
            parser.add_argument(
                "--all",
                action="store_true",
                dest="is_verbose",
                default=argparse.SUPPRESS,
                help="also print what was kept, with the evidence, and what was not checked, with the reason",
            )
        if add_help:
            add_shared_options(parser, Presentation)

    def add_several(
        self, name: str, text: str, noun: str = "ACTION", options: type["DataclassInstance"] | None = None
    ) -> "Commands":
        """A command with actions, and with options that all of these have."""
        parser = self._new(name, text)
        if options is not None:
            add_options(parser, options)
        return Commands(parser, noun)

    def _new(self, name: str, text: str, *, add_help: bool = True) -> Parser:
        self._list("\n".join(textwrap.wrap(text, _WIDTH, initial_indent=f"  {name:<14}", subsequent_indent=" " * 16)))
        program, *words = [*self._parser.prog.split(), name]
        return self._subparsers.add_parser(
            name,
            help=text,
            description=textwrap.fill(f"{text[0].upper()}{text[1:]}.", _WIDTH),
            epilog=examples_text(program, " ".join(words)),
            formatter_class=HelpFormatter,
            add_help=add_help,
        )

    def _list(self, lines: str) -> None:
        if self._lists:
            self._parser.description = f"{self._parser.description or ''}\n{lines}"


def labels_option() -> Any:
    """What a run tested; CI's own variables are labels by themselves."""
    return option(
        "--label",
        type=label,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="what is tested, such as commit=4f2a91c; may be repeated (default: CI's own variables)",
    )


def cluster_option() -> Any:
    """The cluster that a command is about."""
    return option("--dir", required=True, help="the cluster's folder")


def member_argument() -> Any:
    """The member that a command is about."""
    return option(metavar="MEMBER", help="the member's id, from 0")


def leader_timeout_option() -> Any:
    """How long the start of a cluster may take."""
    text = "seconds to wait for a leader (default 30), up to four times as long while members make progress"
    return option("--timeout", type=seconds, default=30.0, help=text)


def base_port_option() -> Any:
    """Where the members of a cluster listen."""
    return option("--base-port", help="first of ten ports per member (default: free ones)")


def run_argument() -> Any:
    """The run that a command is about."""
    return option(
        nargs="?", metavar="RUN", fallback=newest_run, help="the run folder (default: the newest one in ./runs)"
    )


def newest_run() -> Path:
    """The newest run in the folder of runs."""
    from upheaval.cli.new_folder import newest

    return newest()


def newest_recorded_run() -> Path:
    """The newest run, to make it again."""
    return recorded_run(str(newest_run()))


def model_option() -> Any:
    """What the answers of a user's own service are judged by."""
    return option(
        "--model",
        metavar="CLASS",
        help="module:Class of what the service should answer, or a module with promises",
    )


def schema_option() -> Any:
    """How the messages of a user's own service are read."""
    return option(
        "--schema", metavar="FILE", help="SBE schema (XML) of the service's messages, which are then shown by field"
    )


def system_option() -> Any:
    """What the members are."""
    return option(
        "--system",
        metavar="NAME[:VERSION]",
        help="what the members are: upheaval (our node, default), aeron, aeron:VERSION or aeron:PATH of a jar or build",
    )


def launcher_option() -> Any:
    """What starts the members of Aeron."""
    return option(
        "--launcher",
        metavar="COMMAND",
        help="your program that starts a member of Aeron: 'java -cp {aeron}:target/classes my.Main'",
    )


def jvm_option() -> Any:
    """How Java runs the members of Aeron."""
    return option("--jvm", metavar="OPTIONS", help="options of Java for members of Aeron, such as '-Xmx1g -Dmy.key=1'")


def json_option(text: str = "print JSON instead of text", **keywords: Any) -> Any:
    """Output that programs read."""
    return option("--json", help=text, **keywords)


def engine_option() -> Any:
    """What runs or judges many: this machine's Python, or Spark's tasks."""
    return option("--engine", choices=["python", "spark"], default="python", help="what does the work (default python)")


def master_option() -> Any:
    """Of Spark's."""
    return option("--master", help="Spark master (default local[*])")


@dataclass(frozen=True)
class ClusterOptions:
    """Of commands that take a cluster and nothing more."""

    dir: Path = cluster_option()
    json: bool = json_option()


@dataclass(frozen=True)
class MemberOptions:
    """Of commands that take a member and nothing more."""

    dir: Path = cluster_option()
    member: int = member_argument()
    json: bool = json_option()


@dataclass(frozen=True)
class JsonOptions:
    """Of commands that list: `doctor`, `scenarios`, `planted`, `images list`."""

    json: bool = json_option()


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


def seed(text: str) -> int:
    """A seed, as of a campaign."""
    from upheaval.campaign.seeds import parse_seed
    from upheaval.errors import UsageError

    try:
        return parse_seed(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def port_number(text: str) -> int:
    """A port; 0 is a free one."""
    value = int(text) if text.isascii() and text.isdigit() else -1
    if not 0 <= value <= 65_535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return value


def question(text: str) -> str:
    """The name of a question to a lake."""
    return _one_of(QUESTIONS, text)


def alarm(text: str) -> str:
    """The name of a question whose answer may be bad news."""
    return _one_of(ALARMS, text)


def _one_of(names: tuple[str, ...], text: str) -> str:
    if text not in names:
        from upheaval_node.suggestions import did_you_mean

        hint = did_you_mean(text, names)
        raise argparse.ArgumentTypeError(f"unknown question {text!r}: use one of {', '.join(names)}{hint}")
    return text


def label(text: str) -> tuple[str, str]:
    """The name and value of a label, from `NAME=VALUE`."""
    from upheaval.errors import UsageError
    from upheaval.records.labels import parse_label

    try:
        return parse_label(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def objective(text: str) -> float:
    """The share of the time that clients are to have answers, from a number of percent."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = float("nan")
    if not 0 < value < 100:
        raise argparse.ArgumentTypeError(f"expected a percentage between 0 and 100, such as 99.9, got {text!r}")
    return value / 100


def two_values(text: str) -> tuple[str, str, str]:
    """A label and two of its values, from `LABEL=A..B`."""
    name, _, values = text.partition("=")
    base, _, value = values.partition("..")
    if not (name and base and value) or base == value:
        raise argparse.ArgumentTypeError(f"expected LABEL=A..B, such as branch=main..topic, got {text!r}")
    return name, base, value


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
