"""The asyncio client against three members as processes: under load through the death of the leader."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.async_waits import PATIENCE_S, one_turn, until
from unit.runtime.member_processes import TOGETHER, Members
from upheaval_node.client.asyncio_driver import AsyncClient, NotSent, OutcomeUnknown

pytestmark = pytest.mark.heavy

WORKERS = 8


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Members]:
    cluster = Members(tmp_path, 3, TOGETHER, service="workbench")
    cluster.start_all()
    cluster.wait_until_leader()
    yield cluster
    cluster.end()


def patient(cluster: Members) -> AsyncClient:
    """A client whose session lasts through an election on a starved machine. What a dead leader took with it costs the
    time-out of a call.
    """
    return AsyncClient(cluster.ingress, timeout=10, new_leader_timeout=60)


async def read_list(client: AsyncClient) -> list[bytes]:
    """What the list has, however long that takes."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(NotSent, OutcomeUnknown):
                return await client.read_list("list")


class Load:
    """Appends of distinct values to one list, by several tasks of one client, and what became of each."""

    def __init__(self, client: AsyncClient, name: str) -> None:
        self.client = client
        self.name = name
        self.acknowledged: list[bytes] = []
        self.not_sent: list[bytes] = []
        self.unknown: list[bytes] = []
        self.cancelled: list[bytes] = []
        self._is_over = False
        self._tasks = [asyncio.create_task(self._work(number)) for number in range(WORKERS)]

    def cancel_one(self) -> None:
        """Cancel a worker in the middle of its append."""
        self._tasks[0].cancel()

    async def end(self) -> None:
        self._is_over = True
        for task in self._tasks:
            await task

    def check(self, found: list[bytes]) -> None:
        counts = Counter(value for value in found if value.startswith(self.name.encode()))
        assert set(counts.values()) <= {1}, "an append happened twice"
        assert set(self.acknowledged) <= counts.keys(), "an acknowledged append is lost"
        assert not set(self.not_sent) & counts.keys(), "an append that was not sent happened"
        assert counts.keys() <= {*self.acknowledged, *self.unknown, *self.cancelled}
        order = {value: index for index, value in enumerate(found)}
        for number in range(WORKERS):
            own = [order[v] for v in self.acknowledged if v.startswith(f"{self.name}/{number}/".encode())]
            assert own == sorted(own)

    async def _work(self, number: int) -> None:
        for count in range(1_000_000):
            if self._is_over:
                return
            value = f"{self.name}/{number}/{count}".encode()
            try:
                await self.client.append("list", value)
                self.acknowledged.append(value)
            except NotSent:
                self.not_sent.append(value)
            except OutcomeUnknown:
                self.unknown.append(value)
            except asyncio.CancelledError:
                self.cancelled.append(value)


def test_load_of_two_clients_survives_the_kill_of_the_leader(cluster: Members) -> None:
    async def main() -> None:
        async with patient(cluster) as one, patient(cluster) as two:
            sessions = one.session_id, two.session_id
            loads = [Load(one, "one"), Load(two, "two")]
            await until(lambda: all(len(load.acknowledged) > 200 for load in loads))
            for load in loads:
                load.cancel_one()
            leader = one.leader_member_id
            for process in cluster.of_member(leader):
                process.kill()
            before = [len(load.acknowledged) for load in loads]
            await until(
                lambda: all(len(load.acknowledged) > count + 200 for load, count in zip(loads, before, strict=True))
            )
            assert one.leader_member_id == two.leader_member_id != leader
            assert (one.session_id, two.session_id) == sessions, "the sessions follow the leader"
            for load in loads:
                await load.end()
                assert load.cancelled
            found = await read_list(one)
            assert found == await read_list(two)
            for load in loads:
                load.check(found)

    asyncio.run(main())


def test_a_client_that_does_not_wait_for_the_new_leader_opens_another_session(cluster: Members) -> None:
    async def main() -> None:
        async with AsyncClient(cluster.ingress, timeout=60) as client:
            await client.write("k", b"1")
            before = client.session_id, client.leader_member_id
            for process in cluster.of_member(client.leader_member_id):
                process.kill()
            call = asyncio.create_task(client.write("k", b"2"))
            await one_turn()
            await client.reconnect()
            with pytest.raises((NotSent, OutcomeUnknown), match=r"the session (has )?ended"):
                await call
            assert client.session_id != before[0]
            assert client.leader_member_id != before[1]
            await client.write("k", b"3")
            assert await client.read("k") == b"3"

    asyncio.run(main())
