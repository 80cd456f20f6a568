"""The buttons of a cluster's page: one for each kind of fault and each admin command that there is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.errors import UsageError
from upheaval.records import ADMIN_COMMANDS, ENDINGS
from upheaval.system import SystemUnderTest, require_meaning
from upheaval_chaos.datagram_faults import DatagramFaultKind
from upheaval_chaos.faults import MemberFaultKind
from upheaval_chaos.target import LinkFaultKind

MEMBER: Final = "member"
LINK: Final = "link"
CLUSTER: Final = "cluster"
USUAL_OPTIONS: Final[Mapping[str, str]] = {
    LinkFaultKind.SLOW: "latency-ms=200",
    LinkFaultKind.TIMEOUT: "timeout-ms=1000",
    DatagramFaultKind.LOSE: "percent=30",
    DatagramFaultKind.DUPLICATE: "percent=30",
    DatagramFaultKind.DISORDER: "jitter-ms=20",
    DatagramFaultKind.OMIT: "message=AppendPosition",
}
"""What the field of options has at first, of kinds that need some."""
_ENDS: Final = (MemberFaultKind.KILL, MemberFaultKind.STOP)


@dataclass(frozen=True, slots=True)
class Button:
    """What is done to what; one that ends something asks before."""

    word: str
    scope: str
    asks: bool = False
    options: str = ""


def buttons(system: SystemUnderTest) -> Sequence[Button]:
    """Of a live cluster of that system: faults that mean nothing to it have none, nor have those of hosts."""
    members = [Button(kind, MEMBER, asks=kind in _ENDS) for kind in MemberFaultKind]
    kinds = [kind for kind in (*LinkFaultKind, *DatagramFaultKind) if _has_meaning(system, kind)]
    links = [Button(kind, LINK, options=USUAL_OPTIONS.get(kind, "")) for kind in kinds]
    commands = [Button(command, CLUSTER, asks=command in ENDINGS) for command in ADMIN_COMMANDS]
    return [*members, *links, *commands]


def _has_meaning(system: SystemUnderTest, kind: LinkFaultKind | DatagramFaultKind) -> bool:
    try:
        require_meaning(system, kind)
    except UsageError:
        return False
    return True
