"""`upheaval`: parses the command line, calls one command, prints one clear line for whatever went wrong.

Exit status: 0 valid or done, 1 a promise was broken, 2 wrong usage or environment, 3 unknown or timed out, 128 and the
number of the signal that ended it: 130 after Ctrl-C, 143 after SIGTERM.
"""

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

from upheaval.cli import build_commands, cluster_commands, fault_commands, judge_commands, operate_commands
from upheaval.cli.parsing import USAGE_STATUS, Commands, Parser
from upheaval.errors import HarnessError, UnknownOutcome
from upheaval_node import __version__
from upheaval_node.errors import NodeError, TimeoutExpired

INTERRUPTED_STATUS = 128
"""And the number of the signal."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

DESCRIPTION = "Starts clusters of replicated state machines, breaks them, heals them, and judges what they promised."
EPILOG = """\
`upheaval COMMAND --help` lists the options of a command.
Exit status: 0 valid or done, 1 a promise was broken, 2 wrong usage or environment, 3 unknown or timed out."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        with _interruptible():
            status: int = options.command(options)
    except HarnessError as error:
        return _fail(str(error), error.exit_status)
    except TimeoutExpired as error:
        return _fail(str(error), UnknownOutcome.exit_status)
    except NodeError as error:
        return _fail(str(error), USAGE_STATUS)
    except KeyboardInterrupt as interrupt:
        number = next((each for each in interrupt.args if isinstance(each, int)), signal.SIGINT)
        return _fail("interrupted: nothing was left running by this command", INTERRUPTED_STATUS + number)
    except BrokenPipeError:
        # Whoever read our output has gone; the interpreter must not fail once more when it flushes.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        # What no command foresaw: a name that is too long, a file that may not be read, a full disk.
        where = "" if error.filename is None else f"{error.filename}: "
        return _fail(f"{where}{error.strerror or error}", USAGE_STATUS)
    return status


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
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt(number)


def _fail(text: str, status: int) -> int:
    line = " ".join(text.split())
    sys.stdout.flush()
    print(f"upheaval: {line}", file=sys.stderr)
    return status


def _parser() -> Parser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="upheaval", description=DESCRIPTION, epilog=EPILOG, formatter_class=raw)
    parser.add_argument("--version", action="version", version=f"upheaval {__version__}")
    commands = Commands(parser)
    for module in (cluster_commands, fault_commands, judge_commands, operate_commands, build_commands):
        module.add_commands(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
