"""The buttons of a cluster's page: one for each kind of fault and each admin command that there is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.errors import UsageError
from upheaval.records import ADMIN_COMMANDS, ENDINGS
from upheaval.scenario.by_hand import fault_in
from upheaval.system import CLUSTER_OF_THREE, SystemUnderTest, require_meaning
from upheaval_chaos.datagram_faults import DatagramFaultKind
from upheaval_chaos.faults import MemberFaultKind
from upheaval_chaos.file_faults import FileFaultKind, Part
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
_ENDS: Final = (MemberFaultKind.KILL, MemberFaultKind.STOP, FileFaultKind.PURGE, FileFaultKind.WIPE)


ONE_WAY: Final = "->"
BOTH_WAYS: Final = "<->"


@dataclass(frozen=True, slots=True)
class Button:
    """What is done to what; one that ends something asks before. `arrow` is how a link is named that it breaks."""

    word: str
    scope: str
    asks: bool = False
    options: str = ""
    arrow: str = ""

    @property
    def more(self) -> str:
        """The options after its word, in a statement."""
        return f" {self.options}" if self.options else ""


def buttons(system: SystemUnderTest) -> Sequence[Button]:
    """Of a live cluster of that system: faults that mean nothing to it have none, nor have those of hosts."""
    members = [
        Button(kind, MEMBER, asks=kind in _ENDS) for kind in (*MemberFaultKind, FileFaultKind.PURGE, FileFaultKind.WIPE)
    ]
    members += [Button(FileFaultKind.DAMAGE, MEMBER, asks=True, options=part) for part in Part]
    kinds = [kind for kind in (*LinkFaultKind, *DatagramFaultKind) if _has_meaning(system, kind)]
    links = [
        Button(kind, LINK, options=USUAL_OPTIONS.get(kind, ""), arrow=arrow)
        for kind in kinds
        for arrow in (ONE_WAY, BOTH_WAYS)
        if _is_statement(f"{kind} member-0 {arrow} member-1 {USUAL_OPTIONS.get(kind, '')}")
    ]
    commands = [Button(command, CLUSTER, asks=command in ENDINGS) for command in ADMIN_COMMANDS]
    return [*members, *links, *commands]


def _is_statement(text: str) -> bool:
    """Some kinds are of whole connections, which have no one way."""
    try:
        fault_in(text, CLUSTER_OF_THREE)
    except UsageError:
        return False
    return True


def _has_meaning(system: SystemUnderTest, kind: LinkFaultKind | DatagramFaultKind) -> bool:
    try:
        require_meaning(system, kind)
    except UsageError:
        return False
    return True
