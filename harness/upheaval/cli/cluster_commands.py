"""The options of the commands that start, use and end a cluster: `up`, `status`, `client`, `load`, `down`."""

import argparse
from pathlib import Path

from upheaval.cli.lazy import lazy
from upheaval.cli.parsing import (
    LAYOUTS,
    LIVE_RUNTIMES,
    SYNC_LEVELS,
    Commands,
    Parser,
    above_zero,
    add_cluster,
    add_json,
    add_model,
    add_system,
    described,
    duration,
    seconds,
)


def add_commands(commands: Commands) -> None:
    """Add the group."""
    commands.group("cluster")
    _add_up(commands)
    status = commands.add(
        "status",
        "show role, term, positions and processes of each member",
        lazy("upheaval.cli.status:status", "dir", as_json="json"),
    )
    add_cluster(status)
    add_json(status)
    _add_client(commands)
    _add_load(commands)
    down = commands.add("down", "stop all members and keep the folder", lazy("upheaval.cli.members:down", "dir"))
    add_cluster(down)


def _add_up(commands: Commands) -> None:
    up = commands.add("up", "start a cluster and wait for a leader", lazy("upheaval.cli.members:up"))
    up.add_argument("--dir", required=True, type=Path, help="the cluster's folder; the cluster in it is restarted")
    up.add_argument("--members", type=int, help="1 to 9 (default 3)")
    up.add_argument("--runtime", choices=LIVE_RUNTIMES, help="processes (default) or containers")
    up.add_argument("--components", choices=LAYOUTS, help="one process a member (default), or one a component")
    up.add_argument("--profile", choices=["aeron", "test"], help="time-outs and lengths (default test)")
    up.add_argument("--sync-level", type=int, choices=SYNC_LEVELS, help="Aeron's file.sync.level (default 0)")
    up.add_argument(
        "--leader-disconnect-ms",
        type=above_zero,
        metavar="MS",
        help="elect another leader when its connection is gone for so long (default: heartbeat time-out alone)",
    )
    up.add_argument(
        "--service",
        help="echo, register, append, workbench (default, all of those), ledger, timers, "
        "package.module:Class, or CLASSPATH:Class in members of Aeron",
    )
    add_model(up)
    add_system(up)
    up.add_argument("--base-port", type=int, help="first of ten ports a member (default: free ones)")
    up.add_argument("--timeout", type=seconds, default=30.0, help="seconds to wait for a leader (default 30)")
    up.add_argument("--trace", action="store_true", help="record every message, for `upheaval trace`")
    up.add_argument(
        "--tls",
        nargs="?",
        const="",
        metavar="FOLDER",
        help="mutual TLS with the certificates in FOLDER (default: new ones, in DIR.certificates)",
    )
    up.add_argument("--credentials", type=Path, metavar="FILE", help="credentials file; only its users may connect")


def _add_client(commands: Commands) -> None:
    client = commands.add("client", "send one request to the cluster's service", lazy("upheaval.cli.client:client"))
    add_cluster(client)
    client.add_argument("--timeout", type=seconds, default=10.0, help="seconds to wait for the answer (default 10)")
    client.add_argument("--tls", type=Path, metavar="FOLDER", help="certificates other than the cluster's own")
    client.add_argument("--credentials", metavar="FILE", help="the file of `upheaval credentials add`, or env:NAME")
    services = client.add_subparsers(metavar="SERVICE", required=True, parser_class=Parser, title="services")
    register = _add_nested(services, "register", "read, write or compare-and-set a key")
    actions = register.add_subparsers(
        dest="function", metavar="ACTION", required=True, parser_class=Parser, title="actions"
    )
    for name, text, values in (
        ("read", "print the value of a key", {}),
        ("write", "set a key", {"value": "the new value"}),
        ("cas", "set a key if it has the expected value", {"expected": "the value it must have", "new": "the new one"}),
    ):
        action = _add_nested(actions, name, text)
        action.add_argument("key", help="the key")
        for value, meaning in values.items():
            action.add_argument(value, help=meaning)
    append = _add_nested(services, "append", "append to a list, or read it with --read")
    append.add_argument("--read", action="store_true", help="print the list")
    append.add_argument("key", help="the key of the list")
    append.add_argument("value", nargs="?", help="what to append")
    append.set_defaults(function="append")
    echo = _add_nested(services, "echo", "get a text back")
    echo.add_argument("value", metavar="text", help="the text")
    echo.set_defaults(function="echo", key="")


def _add_nested(actions: "argparse._SubParsersAction[Parser]", name: str, text: str) -> Parser:
    return actions.add_parser(name, help=text, description=described(text))


def _add_load(commands: Commands) -> None:
    load = commands.add("load", "run locust users against a cluster, and judge the run", lazy("upheaval.cli.load:load"))
    load.add_argument("--users", type=int, default=10, help="how many (default 10)")
    load.add_argument(
        "--duration", type=duration, help="such as 30s or 2m (default 10s; with --web counted from the first start)"
    )
    load.add_argument("--runtime", choices=LIVE_RUNTIMES, help="of a fresh cluster (default process)")
    load.add_argument("--service", help="of a fresh cluster: as for `up`, module:Class from the current folder")
    add_model(load)
    add_system(load)
    load.add_argument("--web", action="store_true", help="start and stop the load on locust's page, on loopback")
    load.add_argument("--web-port", type=int, help="of the page: default 8089, 0 for a free one")
    load.add_argument("--dir", type=Path, help="a running cluster, or where to start one (default: new, in ./runs)")
    load.add_argument("--members", type=int, help="of a fresh cluster (default 3)")
    load.add_argument(
        "--user", help="workbench, register, append, echo, ledger, timers or module:Class (default: the service's)"
    )
    load.add_argument("--rate", type=float, default=10.0, help="operations a second of each user, 0 for no limit")
    load.add_argument("--timeout", type=seconds, default=5.0, help="seconds to wait for an answer (default 5)")
    load.add_argument("--seed", type=int, default=1, help="of the users' random numbers (default 1)")
    load.add_argument("--credentials", metavar="FILE", help="credentials for all users, if required")
    add_json(load)
