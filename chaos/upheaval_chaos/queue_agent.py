"""`python -m upheaval_chaos.queue_agent ADDRESS PORT SEED`: breaks links where it runs, in a member's network.

Toxiproxy's API at that address, with proxies that take datagrams from the kernel, until it is ended. What passes those
of consensus messages is kept for an observer.
"""

import asyncio
import sys
from collections.abc import Sequence
from random import Random

from upheaval_chaos.proxy_api import ProxyApi
from upheaval_chaos.queue_proxy import QueueProxy


async def _serve(address: str, port: int, seed: str) -> None:
    def watched(name: str, listen: str, upstream: str, random: Random) -> QueueProxy:
        return QueueProxy(name, listen, upstream, random, api.seen.watch_of(name))

    api = ProxyApi(Random(f"proxy/{seed}"), {"udp": watched})
    await (await api.serve(address, port)).serve_forever()


def main(arguments: Sequence[str]) -> None:
    """Serve."""
    address, port, seed = arguments
    asyncio.run(_serve(address, int(port), seed))


if __name__ == "__main__":
    main(sys.argv[1:])
