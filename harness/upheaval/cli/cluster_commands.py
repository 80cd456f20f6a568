"""The commands that start, use and end a cluster, and their options: `up`, `status`, `top`, `ui`, `client`, `load`,
`down`.
"""

from dataclasses import dataclass
from pathlib import Path

from upheaval.cli.parsing import (
    LAYOUTS,
    SYNC_LEVELS,
    ClusterOptions,
    Commands,
    above_zero,
    base_port_option,
    cluster_option,
    duration,
    json_option,
    jvm_option,
    labels_option,
    launcher_option,
    leader_timeout_option,
    model_option,
    port_number,
    schema_option,
    seconds,
    seed,
    system_option,
)
from upheaval.runtime_names import LIVE_RUNTIMES
from upheaval_chaos.options import option


@dataclass(frozen=True)
class UpOptions:
    """Of `up`; what is None is as the folder remembers it, or the default of a new cluster."""

    dir: Path = option("--dir", required=True, help="the cluster's folder; the cluster in it is restarted")
    members: int | None = option("--members", help="1 to 9 (default 3)")
    runtime: str | None = option("--runtime", choices=LIVE_RUNTIMES, help="processes (default) or containers")
    components: str | None = option(
        "--components", choices=LAYOUTS, help="one process per member (default), or one per component"
    )
    profile: str | None = option("--profile", choices=["aeron", "test"], help="time-outs and lengths (default test)")
    sync_level: int | None = option("--sync-level", choices=SYNC_LEVELS, help="Aeron's file.sync.level (default 0)")
    leader_disconnect_ms: int | None = option(
        "--leader-disconnect-ms",
        type=above_zero,
        metavar="MS",
        help="elect another leader once its connection is lost for MS (default: heartbeat time-out alone)",
    )
    service: str | None = option(
        "--service",
        help="echo, register, append, workbench (default, all of those), ledger, timers, "
        "package.module:Class, or CLASSPATH:Class in members of Aeron",
    )
    model: str | None = model_option()
    schema: str | None = schema_option()
    system: str | None = system_option()
    launcher: str | None = launcher_option()
    jvm: str | None = jvm_option()
    base_port: int | None = base_port_option()
    timeout: float = leader_timeout_option()
    trace: bool = option("--trace", help="record every message, for `upheaval trace`")
    tls: str | None = option(
        "--tls",
        nargs="?",
        const="",
        metavar="FOLDER",
        help="mutual TLS with the certificates in FOLDER (default: new ones, in DIR.certificates)",
    )
    credentials: Path | None = option(
        "--credentials", metavar="FILE", help="credentials file; only its users may connect"
    )
    json: bool = json_option()


@dataclass(frozen=True)
class TopOptions:
    dir: Path = cluster_option()
    every: float = option("--every", type=seconds, default=1.0, help="seconds between two looks (default 1)")
    count: int | None = option("--count", type=above_zero, help="end after this many updates (default: go on)")
    json: bool = json_option()


@dataclass(frozen=True)
class UiOptions:
    dir: Path | None = option("--dir", metavar="RUNS", help="a folder of runs, or one run (default: ./runs)")
    lake: str | None = option("--lake", help="show the runs of a lake instead, read only")
    port: int = option("--port", type=port_number, default=8090, help="on loopback: default 8090, 0 for a free one")
    read_only: bool = option("--read-only", help="show only: no buttons, faults or commands")
    json: bool = json_option("print the address as JSON")


@dataclass(frozen=True)
class RequestOptions:
    """Of `client`, for every service."""

    dir: Path = cluster_option()
    timeout: float = option("--timeout", type=seconds, default=10.0, help="seconds to wait for the answer (default 10)")
    tls: Path | None = option("--tls", metavar="FOLDER", help="certificates other than the cluster's own")
    credentials: str | None = option(
        "--credentials", metavar="FILE", help="the file of `upheaval credentials add`, or env:NAME"
    )
    json: bool = json_option()


@dataclass(frozen=True)
class ReadOptions:
    client: RequestOptions
    key: str = option(help="the key")


@dataclass(frozen=True)
class WriteOptions:
    client: RequestOptions
    key: str = option(help="the key")
    value: str = option(help="the new value")


@dataclass(frozen=True)
class CompareAndSetOptions:
    client: RequestOptions
    key: str = option(help="the key")
    expected: str = option(help="the value it must have")
    new: str = option(help="the new value")


@dataclass(frozen=True)
class AppendOptions:
    client: RequestOptions
    read: bool = option("--read", help="print the list")
    key: str = option(help="the key of the list")
    value: str | None = option(nargs="?", help="what to append")


@dataclass(frozen=True)
class EchoOptions:
    client: RequestOptions
    value: str = option(metavar="text", help="the text")


@dataclass(frozen=True)
class CallOptions:
    client: RequestOptions
    payload: str = option(metavar="text", help="the request, in UTF-8")


@dataclass(frozen=True)
class LoadOptions:
    users: int = option("--users", default=10, help="how many (default 10)")
    duration: float | None = option(
        "--duration",
        type=duration,
        help="such as 30s or 2m (default 10s; with --web counted from the first start)",
    )
    runtime: str | None = option(
        "--runtime", choices=LIVE_RUNTIMES, help="runtime of a fresh cluster (default process)"
    )
    service: str | None = option(
        "--service", help="service of a fresh cluster, as for `up`: module:Class from the current folder"
    )
    model: str | None = model_option()
    schema: str | None = schema_option()
    system: str | None = system_option()
    web: bool = option("--web", help="start and stop the load on locust's page, on loopback")
    web_port: int | None = option("--web-port", help="port of the page: default 8089, 0 for a free one")
    dir: Path | None = option("--dir", help="the folder of a cluster that runs (default: a fresh cluster)")
    new_dir: Path | None = option("--new-dir", help="where to start a fresh cluster (default: a new folder in ./runs)")
    members: int | None = option("--members", help="members of a fresh cluster (default 3)")
    user: str | None = option(
        "--user", help="workbench, register, append, echo, ledger, timers or module:Class (default: the service's)"
    )
    rate: float = option("--rate", default=10.0, help="operations per second of each user, 0 for no limit")
    timeout: float = option("--timeout", type=seconds, default=5.0, help="seconds to wait for an answer (default 5)")
    seed: int = option("--seed", type=seed, default=1, help="seed of the users' random numbers (default 1)")
    credentials: str | None = option("--credentials", metavar="FILE", help="credentials for all users, if required")
    labels: tuple[tuple[str, str], ...] = labels_option()
    json: bool = json_option()


def add_commands(commands: Commands) -> None:
    """Add the group."""
    commands.group("cluster")
    commands.add("up", "start a cluster and wait for a leader", UpOptions, "members:up")
    commands.add("status", "show role, term, positions and processes of each member", ClusterOptions, "status:status")
    commands.add("top", "watch the members of a cluster: roles, positions, lag, rates, faults", TopOptions, "top:top")
    commands.add("ui", "show runs and clusters in a browser, and break clusters there", UiOptions, "ui:ui")
    services = commands.add_several("client", "send one request to the cluster's service", "SERVICE", RequestOptions)
    register = services.add_several("register", "read, write or compare-and-set a key")
    register.add("read", "print the value of a key", ReadOptions, "client:read")
    register.add("write", "set a key", WriteOptions, "client:write")
    register.add("cas", "set a key if it has the expected value", CompareAndSetOptions, "client:compare_and_set")
    services.add("append", "append to a list, or read it with --read", AppendOptions, "client:append")
    services.add("echo", "send a text and get it back", EchoOptions, "client:echo")
    services.add("call", "send a text to a custom service, and print its answer", CallOptions, "client:call")
    commands.add(
        "load", "run locust users against a cluster, and judge the run", LoadOptions, "load:load", prints_verdict=True
    )
    commands.add("down", "stop all members and keep the folder", ClusterOptions, "members:down")
