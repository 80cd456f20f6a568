"""Link faults of a cluster of containers, made by packet filters.

A filter at the receiver drops the packets of a link, or answers them with a reset. No proxies are involved.
"""

from collections.abc import Sequence
from typing import Final

from upheaval.errors import UsageError
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.helpers import Helpers
from upheaval_chaos.target import Link, LinkEffect, LinkFaultKind, Means
from upheaval_chaos.toxic_links import streams_of

_VERDICTS: Final = {LinkFaultKind.BLACKHOLE: "DROP", LinkFaultKind.RESET: "REJECT --reject-with tcp-reset"}


class PacketLinks(Helpers):
    """Implements `live.Links`, for links between members."""

    def __init__(self, cluster: DockerCluster) -> None:
        super().__init__(cluster, range(cluster.config.members))

    @property
    def datagrams(self) -> None:
        """None: filters cannot change datagrams."""

    # --- injector ---

    def impose(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Add the rules of one fault. Raises `UsageError` for effects that filters cannot make."""
        self._change("-I", links, effect)

    def lift(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Delete the rules of one fault, ignoring rules that could not be imposed."""
        self._change("-D", links, effect, " || :")

    def _change(self, how: str, links: Sequence[Link], effect: LinkEffect, unless: str = "") -> None:
        """Add or delete the rules, all rules of one network at once."""
        self.require_ends(links)
        if effect.means is not Means.PACKETS or effect.kind not in _VERDICTS:
            raise UsageError(f"packet filters do not support {effect.kind}: the links of this cluster have no proxies")
        verdict = _VERDICTS[effect.kind]
        for target in dict.fromkeys(link.target for link in links):
            streams = [stream for link in links if link.target == target for stream in streams_of(link, self.legs)]
            self.filter(target, [f"{how} INPUT {self.match(stream)} -j {verdict}{unless}" for stream in streams])
