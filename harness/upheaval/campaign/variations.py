"""What a cluster of a campaign may have that others have not, drawn from the seed apart from all else of it.

Without variations a seed is the cluster that it was before there were any. Values only; this module runs nothing.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from random import Random
from typing import Final

from upheaval.records import Json
from upheaval.workload import WORKBENCH_SERVICE
from upheaval_node.settings import MemberSettings

CHECKSUM: Final = "CRC-32"
LONE_FACTOR: Final = 4
SECOND_SERVICE: Final = "tally"
_SMALL_MTUS: Final = (96, 128)
"""With which every opened session, and most requests and answers, need several frames."""
_TEXT_LENGTHS: Final = (1500, 3000, 6000)
"""Of two frames or more with Aeron's MTU; the longest message of the shortest term has 8 KiB."""


class Variation(StrEnum):
    """The kinds, by the names that a campaign shows."""

    SEVERAL_SERVICES = "several-services"
    SMALL_MTU = "small-mtu"
    LONG_TEXTS = "long-texts"
    CHECKSUMS = "checksums"


@dataclass(frozen=True, slots=True)
class Variations:
    """Of one seed; the defaults are none. Lengths are in bytes."""

    more_services: tuple[str, ...] = ()
    mtu: int = 0
    text_length: int = 0
    checksum: str = ""
    load_factor: int = 1
    """How many times the rate of its load is that of others. A lone member serves nobody while it is down."""

    def drawn(self) -> Iterator[Variation]:
        """The kinds that it has."""
        if self.more_services:
            yield Variation.SEVERAL_SERVICES
        if self.mtu:
            yield Variation.SMALL_MTU
        if self.text_length:
            yield Variation.LONG_TEXTS
        if self.checksum:
            yield Variation.CHECKSUMS

    def apply(self, settings: MemberSettings) -> MemberSettings:
        """The settings of a member with them; how many services it has is said elsewhere."""
        media, archive, cluster = settings.media, settings.archive, settings.cluster
        if self.mtu:
            media, cluster = replace(media, mtu=self.mtu), replace(cluster, log_mtu=self.mtu)
        if self.checksum:
            archive = replace(archive, record_checksum=self.checksum, replay_checksum=self.checksum)
        return replace(settings, media=media, archive=archive, cluster=cluster)

    def to_fields(self) -> dict[str, Json]:
        """As a line of JSON holds them."""
        return {**asdict(self), "more_services": list(self.more_services)}


NO_VARIATIONS: Final = Variations()


def draw_variations(seed: int, members: int, service: str) -> Variations:
    """Each kind is drawn from a generator of its own, so that a kind more changes nothing of the others."""

    def draws(kind: Variation, share: float) -> Random | None:
        random = Random(f"swarm/{seed}/{kind}")
        return random if random.random() < share else None

    services = draws(Variation.SEVERAL_SERVICES, 0.3)
    mtu = draws(Variation.SMALL_MTU, 0.25)
    texts = draws(Variation.LONG_TEXTS, 0.4) if service == WORKBENCH_SERVICE else None
    checksums = draws(Variation.CHECKSUMS, 0.4)
    return Variations(
        more_services=() if services is None else (SECOND_SERVICE,),
        mtu=0 if mtu is None else mtu.choice(_SMALL_MTUS),
        text_length=0 if texts is None else texts.choice(_TEXT_LENGTHS),
        checksum="" if checksums is None else CHECKSUM,
        load_factor=LONE_FACTOR if members == 1 else 1,
    )
