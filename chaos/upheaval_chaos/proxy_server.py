"""The proxies of this process in a thread of their own: start it, use `address` like a Toxiproxy, stop it."""

import asyncio
import threading
from collections.abc import Mapping
from random import Random
from types import TracebackType
from typing import Final

from upheaval_chaos.datagram_proxy import DatagramProxy
from upheaval_chaos.datagram_ways import WatchOf
from upheaval_chaos.errors import EnvironmentFault
from upheaval_chaos.proxy import Proxy
from upheaval_chaos.proxy_api import ProxyApi
from upheaval_chaos.seen_datagrams import carried_by

HOST: Final = "127.0.0.1"


def unwatched(_: str) -> None:
    """Observes no proxy."""


class ProxyServer:
    """Use it in a `with` statement. At its end every proxy and every connection is gone."""

    def __init__(self, seed: int = 0, watch_of: WatchOf = unwatched) -> None:
        self.address = ""

        def datagram_proxy(name: str, listen: str, upstream: str, random: Random) -> DatagramProxy:
            return DatagramProxy(name, listen, upstream, random, watch_of(name))

        self._api = ProxyApi(Random(f"proxy/{seed}"), {"tcp": Proxy, "udp": datagram_proxy})
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="proxies", daemon=True)

    def carried(self) -> Mapping[str, tuple[int, int]]:
        """See `carried_by`. Call it after everything has stopped."""
        return carried_by(self._api.proxies)

    def __enter__(self) -> "ProxyServer":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the thread. Returns when requests are answered."""
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise EnvironmentFault(f"cannot start the proxies: {self._error}") from self._error

    def stop(self) -> None:
        """Stop the thread. Returns when everything is gone; a second call does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except OSError as error:
            self._error = error
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        server = await self._api.serve(HOST)
        host, port = server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        self._ready.set()
        await self._stop.wait()
        server.close()
        await self._api.close()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
