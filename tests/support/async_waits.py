"""Waiting for conditions in an event loop."""

import asyncio
from collections.abc import Callable

PATIENCE_S = 240.0
LOOK_INTERVAL_S = 0.002


async def one_turn(delay_s: float = 0) -> None:
    """Let everything else in the loop have its turn; `delay_s` between two looks at what is elsewhere."""
    loop = asyncio.get_running_loop()
    passed = asyncio.Event()
    handle = loop.call_later(delay_s, passed.set) if delay_s else loop.call_soon(passed.set)
    try:
        await passed.wait()
    finally:
        handle.cancel()


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that happens in this loop, in a thread or in another process."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await one_turn(LOOK_INTERVAL_S)
