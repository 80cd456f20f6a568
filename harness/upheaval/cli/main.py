"""`upheaval`: parses the command line, calls one command, prints one clear line for whatever went wrong.

Exit statuses are those of `upheaval_chaos.exit_status`.
"""

import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

from upheaval.cli import build_commands, cluster_commands, fault_commands, judge_commands, operate_commands
from upheaval.cli.output import (
    Output,
    OutputLost,
    final_status,
    lost_status,
    present,
    presentation_of,
    standard_streams,
)
from upheaval.cli.parsing import Commands, HelpFormatter, Parser
from upheaval.cli.presentation import Presentation
from upheaval.errors import HarnessError, UsageError
from upheaval_chaos.exit_status import CommandStatus, interrupted_status, status_table
from upheaval_chaos.options import Command, add_options, parse_command
from upheaval_node import __version__
from upheaval_node.errors import NodeError, TimeoutExpired

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

DESCRIPTION = "Starts clusters of replicated state machines, breaks them, and judges them."
EPILOG = "\n".join(
    [
        "`upheaval COMMAND --help` lists the options of a command.",
        "Exit status:",
        *(f"  {status:<9}{meaning}" for status, meaning in status_table()),
    ]
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit status. Raises `SystemExit` where the parser ends the command."""
    with standard_streams() as output:
        try:
            status = _status(arguments, output)
        except SystemExit as end:
            raise SystemExit(final_status(int(end.code or 0), output)) from None
        return final_status(status, output)


def _status(arguments: Sequence[str] | None, output: Output) -> int:
    try:
        command, options, presentation = parse_command(make_parser(), arguments, Presentation)
        present(presentation)
        output.ends_command = command.ends_with_reader
        with _interruptible():
            return _carried_out(command, options)
    except HarnessError as error:
        return _fail(str(error), error.exit_status)
    except TimeoutExpired as error:
        return _fail(str(error), CommandStatus.UNKNOWN)
    except NodeError as error:
        return _fail(str(error), CommandStatus.REFUSED)
    except KeyboardInterrupt as interrupt:
        number = next((argument for argument in interrupt.args if isinstance(argument, int)), signal.SIGINT)
        return _fail("interrupted: nothing was left running by this command", interrupted_status(number))
    except OutputLost:
        return lost_status(output)
    except OSError as error:
        # What no command foresaw: a name that is too long, a file that may not be read, a full disk.
        where = "" if error.filename is None else f"{error.filename}: "
        return _fail(f"{where}{error.strerror or error}", CommandStatus.REFUSED)
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - an exception that nothing foresaw is ours to answer for
        return _defect(error)


def _carried_out(command: Command, options: object) -> int:
    try:
        return command.function(options)
    except SystemExit as end:
        # Nothing of ours ends a command so, and its status is no verdict.
        raise UsageError(f"code that the command loaded ended the program, by sys.exit({end.code!r})") from end


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Every signal that ends a program is Ctrl-C to us, unless our parent wants it ignored (nohup, `&`)."""
    previous = {number: signal.getsignal(number) for number in _ENDING}
    for number, handler in previous.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _interrupt(number: int, _: object) -> NoReturn:
    """The first one ends the command; what it then takes to leave nothing is not to be interrupted."""
    for ending in _ENDING:
        signal.signal(ending, signal.SIG_IGN)
    raise KeyboardInterrupt(number)


def _fail(text: str, status: int) -> int:
    line = " ".join(text.split())
    with contextlib.suppress(OutputLost):
        sys.stdout.flush()
    print(f"upheaval: {line}", file=sys.stderr)
    if presentation_of(sys.stderr).is_verbose and status != CommandStatus.DEFECT:
        import traceback

        traceback.print_exc()
    return status


def _defect(error: BaseException) -> int:
    import traceback

    status = _fail(
        f"this is a defect of upheaval {__version__} and no verdict: {type(error).__name__}: {error}; "
        "please report the command and all of what follows",
        CommandStatus.DEFECT,
    )
    traceback.print_exception(error)
    return status


def make_parser() -> Parser:
    """The parser of all commands."""
    parser = Parser(prog="upheaval", description=DESCRIPTION, epilog=EPILOG, formatter_class=HelpFormatter)
    parser.add_argument("--version", action="version", version=f"upheaval {__version__}")
    add_options(parser, Presentation)
    commands = Commands(parser)
    for module in (cluster_commands, fault_commands, judge_commands, operate_commands, build_commands):
        module.add_commands(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
