"""TCP ports for the members of a cluster on this machine.

This module knows which ports a member needs, whether they are free, and which ports this process chose. It does not
listen on them.
"""

import errno
import os
import random
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from upheaval.errors import EnvironmentFault, UsageError

HOST: Final = "127.0.0.1"

# Ingress, consensus, log, catch-up, archive, metrics; three egress ports, used for the first member only; the claim.
PORTS_A_MEMBER: Final = 10
PORTS_USED: Final = 5

LOWEST_PORT: Final = 1024
_LAST_PORT: Final = 65535

# Below Linux's range for outgoing connections (from 32768), above the well-known ports.
_LOWEST: Final = 20000
_HIGHEST: Final = 32000
_ATTEMPTS: Final = 200

# The process that chose the ports only binds the last of a member's ten: between the choice and the first listener, and
# while a member is down, all ports look free to another process.
_CLAIM: Final = PORTS_A_MEMBER - 1
# Limited to the newest clusters of this process; a process that starts many in turn would run out of ports.
_claims: Final = deque[ExitStack]()
_MAX_CLAIMS: Final = 16


def member_ports(base_port: int, member_id: int) -> list[int]:
    """The ports of one member in the order ingress, consensus, log, catch-up, archive."""
    first = base_port + member_id * PORTS_A_MEMBER
    return list(range(first, first + PORTS_USED))


def metrics_port(base_port: int, member_id: int) -> int:
    """The port of a member's metrics and health, after the ports in the members string."""
    return member_ports(base_port, member_id)[-1] + 1


def egress_ports(base_port: int) -> list[int]:
    """The ports on which clients receive answers of members that dial them, a different one for each client program."""
    first = metrics_port(base_port, 0) + 1
    return list(range(first, base_port + _CLAIM))


def highest_base_port(members: int) -> int:
    """The highest base port with which all ports of that many members exist."""
    return _LAST_PORT - members * PORTS_A_MEMBER


def cluster_ports(base_port: int, members: int) -> list[int]:
    """All ports that the members listen on."""
    return [
        port
        for member_id in range(members)
        for port in (*member_ports(base_port, member_id), metrics_port(base_port, member_id))
    ]


def is_free(port: int) -> bool:
    """Whether a listener could bind the port now."""
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
    """A base port whose ports are all free now, and that no other process has chosen.

    It is random, so that clusters that start at the same time rarely try the same port.
    """
    draw = random.SystemRandom()
    span = members * PORTS_A_MEMBER
    for _ in range(_ATTEMPTS):
        base_port = draw.randrange(_LOWEST, _HIGHEST - span, PORTS_A_MEMBER)
        if not _claim(base_port, members):
            continue
        if first_used(cluster_ports(base_port, members)) is None:
            _limit_claims()
            return base_port
        _claims.pop().close()
    raise EnvironmentFault(f"found no {span} free ports between {_LOWEST} and {_HIGHEST}: end what holds them")


def _claim(base_port: int, members: int) -> bool:
    """Claim the ports for this process. Returns whether no other process of the harness has claimed them."""
    with ExitStack() as claimed:
        for first in range(base_port, base_port + members * PORTS_A_MEMBER, PORTS_A_MEMBER):
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as claim:
                try:
                    claim.bind((HOST, first + _CLAIM))
                except OSError as error:
                    if error.errno in (errno.EADDRINUSE, errno.EACCES):
                        return False
                    raise EnvironmentFault(f"cannot bind {HOST}:{first + _CLAIM}: {error.strerror}") from error
                # Most claims last until the process ends.
                claimed.callback(os.close, claim.detach())
        _claims.append(claimed.pop_all())
    return True


def _limit_claims() -> None:
    while len(_claims) > _MAX_CLAIMS:
        _claims.popleft().close()


def require_free(base_port: int, members: int) -> None:
    """Raises `UsageError` for an impossible base port, and `EnvironmentFault` with the port that is in use."""
    if not LOWEST_PORT <= base_port <= highest_base_port(members):
        room = f"{LOWEST_PORT} to {highest_base_port(members)}"
        raise UsageError(f"base port {base_port} does not leave room: use {room}")
    used = first_used(cluster_ports(base_port, members))
    if used is not None:
        raise EnvironmentFault(f"port {used} is in use: end what listens there or give another --base-port")


def first_used(ports: Sequence[int]) -> int | None:
    """The first port that something listens on; None when all ports are free."""
    return next((port for port in ports if not is_free(port)), None)
