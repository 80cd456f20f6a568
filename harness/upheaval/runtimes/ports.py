"""TCP ports for the members of a cluster on this machine.

This module knows which ports a member needs and whether they are free; it holds none of them.
"""

import errno
import random
import socket
from collections.abc import Sequence
from typing import Final

from upheaval.errors import EnvironmentFault, UsageError

HOST: Final = "127.0.0.1"

# ingress, consensus, log, catch-up, archive, metrics; the rest of the ten is room for what comes later.
PORTS_A_MEMBER: Final = 10
PORTS_USED: Final = 5

LOWEST_PORT: Final = 1024
_LAST_PORT: Final = 65535

# Below the range from which Linux takes ports for outgoing connections (32768), above the well-known ones.
_LOWEST: Final = 20000
_HIGHEST: Final = 32000
_ATTEMPTS: Final = 200


def member_ports(base_port: int, member_id: int) -> list[int]:
    """The ports of one member in the order ingress, consensus, log, catch-up, archive."""
    first = base_port + member_id * PORTS_A_MEMBER
    return list(range(first, first + PORTS_USED))


def metrics_port(base_port: int, member_id: int) -> int:
    """The port of a member's metrics and health, after those that are in the members string."""
    return member_ports(base_port, member_id)[-1] + 1


def highest_base_port(members: int) -> int:
    """The highest first port with which all ports of so many members exist."""
    return _LAST_PORT - members * PORTS_A_MEMBER


def cluster_ports(base_port: int, members: int) -> list[int]:
    """Every port that the members listen on."""
    return [
        port
        for member_id in range(members)
        for port in (*member_ports(base_port, member_id), metrics_port(base_port, member_id))
    ]


def is_free(port: int) -> bool:
    """Whether a listener could be bound to the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise EnvironmentFault(f"cannot bind {HOST}:{port}: {error.strerror}") from error
    return True


def choose_base_port(members: int) -> int:
    """A base port whose ports are all free at this moment.

    Drawn, not counted up, so that clusters that start at the same time rarely choose the same.
    """
    draw = random.SystemRandom()
    span = members * PORTS_A_MEMBER
    for _ in range(_ATTEMPTS):
        base_port = draw.randrange(_LOWEST, _HIGHEST - span, PORTS_A_MEMBER)
        if first_used(cluster_ports(base_port, members)) is None:
            return base_port
    raise EnvironmentFault(f"found no {span} free ports between {_LOWEST} and {_HIGHEST}: end what holds them")


def require_free(base_port: int, members: int) -> None:
    """Raises `UsageError` for an impossible base port, `EnvironmentFault` naming the port that is in use."""
    if not LOWEST_PORT <= base_port <= highest_base_port(members):
        room = f"{LOWEST_PORT} to {highest_base_port(members)}"
        raise UsageError(f"base port {base_port} does not leave room: use {room}")
    used = first_used(cluster_ports(base_port, members))
    if used is not None:
        raise EnvironmentFault(f"port {used} is in use: end what listens there or give another --base-port")


def first_used(ports: Sequence[int]) -> int | None:
    """The first of the ports that something listens on, None when all are free."""
    return next((port for port in ports if not is_free(port)), None)
