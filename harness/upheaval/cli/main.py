"""`upheaval`: parses the command line, calls one command, prints one clear line for whatever went wrong.

Exit status: 0 valid or done, 1 a promise was broken, 2 wrong usage or environment, 3 unknown or timed out, 130 after
Ctrl-C.
"""

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from upheaval.cli import (
    backup_commands,
    campaign_commands,
    images_commands,
    operate_commands,
    pipeline_commands,
    scenarios_commands,
    security_commands,
    standby_commands,
    tool,
    trace,
)
from upheaval.errors import HarnessError, UnknownOutcome
from upheaval.system import COMPONENTS
from upheaval_node import __version__
from upheaval_node.errors import NodeError, TimeoutExpired

USAGE_STATUS = 2
INTERRUPTED_STATUS = 130
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_ORDERS = {
    "snapshot": "let a cluster take a snapshot; done when every member that runs has it",
    "suspend": "let a cluster take no requests",
    "resume": "let a suspended cluster go on",
    "shutdown": "let a cluster take a snapshot and end, all members by themselves and with status 0",
    "abort": "let a cluster end without a snapshot",
}

DESCRIPTION = "Starts clusters of replicated state machines, breaks them, heals them, and judges what they promised."


class _Parser(argparse.ArgumentParser):
    """Argument errors as one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_STATUS, f"upheaval: {message} (see `{self.prog} --help`)\n")


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
    except KeyboardInterrupt:
        return _fail("interrupted: nothing was left running by this command", INTERRUPTED_STATUS)
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


def _interrupt(*_: object) -> NoReturn:
    """The first one ends the command; what it then takes to leave nothing behind is not to be interrupted."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _fail(text: str, status: int) -> int:
    line = " ".join(text.split())
    sys.stdout.flush()
    print(f"upheaval: {line}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="upheaval", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"upheaval {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    _add_up(commands)
    _add_status(commands)
    _add_client(commands)
    _add_member_commands(commands)
    _add_demo(commands)
    _add_load(commands)
    security_commands.add_commands(commands)
    images_commands.add_commands(commands)
    pipeline_commands.add_commands(commands)
    scenarios_commands.add_commands(commands)
    campaign_commands.add_commands(commands)
    trace.add_command(commands)
    tool.add_command(commands)
    backup_commands.add_commands(commands, _seconds)
    standby_commands.add_commands(commands, _seconds)
    operate_commands.add_commands(commands)
    return parser


_Commands = argparse._SubParsersAction  # argparse has no public name for it


def _add_up(commands: "_Commands[_Parser]") -> None:
    parser = commands.add_parser("up", help="start a cluster, or the rest of one, and wait for a leader")
    parser.add_argument("--dir", required=True, type=Path, help="the cluster's folder; an existing one is restarted")
    parser.add_argument("--members", type=int, help="1 to 9 (default 3)")
    parser.add_argument("--runtime", choices=["process", "docker"], help="processes (default) or containers")
    parser.add_argument("--components", choices=["together", "split"], help="one process a member, or one a component")
    parser.add_argument("--profile", choices=["aeron", "test"], help="time-outs and lengths (default test)")
    parser.add_argument("--sync-level", type=int, choices=[0, 1, 2], help="Aeron's file.sync.level (default 0)")
    parser.add_argument(
        "--service",
        help="echo, register, append, workbench (default, all of those), ledger, timers or package.module:Class",
    )
    parser.add_argument("--base-port", type=int, help="first of ten ports a member (default: free ones)")
    parser.add_argument("--timeout", type=_seconds, default=30.0, help="seconds to wait for a leader")
    parser.add_argument("--trace", action="store_true", help="write down every message, see `upheaval trace`")
    parser.add_argument(
        "--tls",
        nargs="?",
        const="",
        metavar="FOLDER",
        help="mutual TLS with the certificates there (default: new ones, in DIR.certificates)",
    )
    parser.add_argument("--credentials", type=Path, metavar="BOOK", help="let in only those of `upheaval credentials`")
    parser.set_defaults(command=_up)


def _add_status(commands: "_Commands[_Parser]") -> None:
    parser = commands.add_parser("status", help="what each member says about itself")
    parser.add_argument("--dir", required=True, type=Path)
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(command=_status)


def _add_client(commands: "_Commands[_Parser]") -> None:
    parser = commands.add_parser("client", help="one operation as a client of the cluster")
    parser.add_argument("--dir", required=True, type=Path)
    parser.add_argument("--timeout", type=_seconds, default=10.0, help="seconds to wait for the answer")
    parser.add_argument("--tls", type=Path, metavar="FOLDER", help="other certificates than the cluster's own")
    parser.add_argument("--credentials", metavar="FILE", help="the file of `upheaval credentials add`, or env:NAME")
    services = parser.add_subparsers(metavar="SERVICE", required=True, parser_class=_Parser)
    register = services.add_parser("register", help="read, write or compare-and-set a key")
    actions = register.add_subparsers(dest="function", metavar="ACTION", required=True, parser_class=_Parser)
    for name, values in (("read", []), ("write", ["value"]), ("cas", ["expected", "new"])):
        action = actions.add_parser(name)
        action.add_argument("key")
        for value in values:
            action.add_argument(value)
    append = services.add_parser("append", help="append to a list, or read it with --read")
    append.add_argument("--read", action="store_true")
    append.add_argument("key")
    append.add_argument("value", nargs="?")
    append.set_defaults(function="append")
    echo = services.add_parser("echo", help="get a text back")
    echo.add_argument("value", metavar="text")
    echo.set_defaults(function="echo", key="")
    parser.set_defaults(command=_client)


def _add_member_commands(commands: "_Commands[_Parser]") -> None:
    kill = commands.add_parser("kill", help="SIGKILL a member, or one component of a split member")
    kill.add_argument("--dir", required=True, type=Path)
    kill.add_argument("--component", choices=COMPONENTS)
    kill.add_argument("member", type=int)
    kill.set_defaults(command=_kill)
    start = commands.add_parser("start", help="start what is not running of a member")
    start.add_argument("--dir", required=True, type=Path)
    start.add_argument("member", type=int)
    start.set_defaults(command=_start)
    for word, text in _ORDERS.items():
        order = commands.add_parser(word, help=text)
        order.add_argument("--dir", required=True, type=Path)
        order.add_argument("--timeout", type=_seconds, default=30.0, help="seconds until it has taken effect")
        order.set_defaults(command=_order, order=word)
    down = commands.add_parser("down", help="end the cluster; its folder stays")
    down.add_argument("--dir", required=True, type=Path)
    down.set_defaults(command=_down)


def _add_demo(commands: "_Commands[_Parser]") -> None:
    parser = commands.add_parser("demo", help="take a cluster's leader away twice under load, heal it, judge the run")
    parser.add_argument("--dir", type=Path, help="the run folder (default: a new one in ./runs)")
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--runtime", choices=["process", "docker"], default="process", help="processes or containers")
    parser.add_argument("--components", choices=["together", "split"], default="together")
    parser.add_argument("--sync-level", type=int, choices=[0, 1, 2], default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operations", type=int, default=2000, help="acknowledged operations in each of five phases")
    parser.set_defaults(command=_demo)


def _add_load(commands: "_Commands[_Parser]") -> None:
    parser = commands.add_parser("load", help="locust users on a cluster: statistics, and the verdict on the run")
    parser.add_argument("--users", type=int, default=10, help="how many (default 10); a fresh cluster lets them all in")
    parser.add_argument(
        "--duration", type=_duration, help="such as 30s or 2m (default 10s; with --web from the first start, or none)"
    )
    parser.add_argument("--runtime", choices=["process", "docker"], help="of a fresh cluster (default process)")
    parser.add_argument("--service", help="of a fresh cluster: as for `up`, module:Class from the current folder")
    parser.add_argument("--web", action="store_true", help="start and stop the load on locust's page, on loopback")
    parser.add_argument("--web-port", type=int, help="of the page: default 8089, 0 for a free one")
    parser.add_argument("--dir", type=Path, help="a running cluster, or where to start one (default: new, in ./runs)")
    parser.add_argument("--members", type=int, help="of a fresh cluster (default 3)")
    parser.add_argument(
        "--user", help="workbench, register, append, echo, ledger, timers or module:Class (default: the service's)"
    )
    parser.add_argument("--rate", type=float, default=10.0, help="operations a second of each user, 0 for no limit")
    parser.add_argument("--timeout", type=_seconds, default=5.0, help="seconds to wait for an answer (default 5)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--credentials", metavar="FILE", help="of all users, on a cluster that wants some")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(command=_load)


def _duration(text: str) -> float:
    factor = {"s": 1, "m": 60, "h": 3600}.get(text[-1:])
    return _seconds(text) if factor is None else _seconds(text[:-1]) * factor


_duration.__name__ = "duration"


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 100_000:
        raise ValueError(text)
    return value


_seconds.__name__ = "number of seconds"  # what argparse calls the type in its message


# Each command imports what it needs, so that `upheaval --help` and a wrong option answer at once.


def _up(options: argparse.Namespace) -> int:
    from upheaval.cli import members

    return members.up(options)


def _status(options: argparse.Namespace) -> int:
    from upheaval.cli import status

    return status.status(options.dir, as_json=options.json)


def _client(options: argparse.Namespace) -> int:
    from upheaval.cli import client

    return client.client(options)


def _kill(options: argparse.Namespace) -> int:
    from upheaval.cli import members

    return members.kill(options.dir, options.member, options.component)


def _start(options: argparse.Namespace) -> int:
    from upheaval.cli import members

    return members.start(options.dir, options.member)


def _order(options: argparse.Namespace) -> int:
    from upheaval.cli import members

    return members.order(options.dir, options.order, options.timeout)


def _down(options: argparse.Namespace) -> int:
    from upheaval.cli import members

    return members.down(options.dir)


def _demo(options: argparse.Namespace) -> int:
    from upheaval.cli import demo

    return demo.demo(options)


def _load(options: argparse.Namespace) -> int:
    from upheaval.cli import load

    return load.load(options)


if __name__ == "__main__":
    sys.exit(main())
