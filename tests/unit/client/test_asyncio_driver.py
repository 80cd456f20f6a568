"""The asyncio client over real sockets: many requests at once, cancelled ones, time-outs, a loop that runs on."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from support.async_waits import one_turn, until
from unit.client.answering_member import Member
from upheaval_node.client import operations
from upheaval_node.client.asyncio_driver import AsyncClient, NotSent, OperationFailed, OutcomeUnknown
from upheaval_node.errors import TimeoutExpired, UsageError
from upheaval_node.types import S


def run(main: Coroutine[Any, Any, None]) -> None:
    """In an event loop in debug mode; an exception that no task has handled fails the test, too."""
    unheard: list[dict[str, Any]] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        await main

    asyncio.run(watched(), debug=True)
    assert unheard == []


def test_every_operation_works_over_real_sockets(member: Member) -> None:
    async def main() -> None:
        async with AsyncClient(f"0={member.endpoint}") as client:
            assert await client.echo(b"hello") == b"hello"
            assert await client.read("k") is None
            await client.write("k", b"1")
            assert await client.cas("k", b"2", b"3") is False
            assert await client.cas("k", b"1", b"3") is True
            assert await client.read("k") == b"3"
            await client.append("l", b"a")
            await client.append("l", b"b")
            assert await client.read_list("l") == [b"a", b"b"]
            response = await client.call(operations.read_request(client.new_operation_id(), "k"))
            assert (response.value, response.position) == (b"3", member.position)
            assert (client.leader_member_id, client.session_id, client.is_connected) == (0, 1, True)
        assert not client.is_connected

    run(main())


def test_many_requests_are_under_way_and_each_gets_its_own_answer_in_whatever_order(member: Member) -> None:
    async def main() -> None:
        async with AsyncClient({0: member.endpoint}) as client:
            member.holds = True
            calls = [asyncio.create_task(client.echo(b"%d" % number)) for number in range(200)]
            await until(lambda: len(member.held) == 200)
            assert not any(call.done() for call in calls)
            member.release_reversed()
            assert await asyncio.gather(*calls) == [b"%d" % number for number in range(200)]

    run(main())


def test_requests_are_sent_in_the_order_of_their_calls(member: Member) -> None:
    async def main() -> None:
        async with AsyncClient({0: member.endpoint}) as client:
            await asyncio.gather(*(client.append("l", b"%d" % number) for number in range(500)))
            assert await client.read_list("l") == [b"%d" % number for number in range(500)]

    run(main())


def test_requests_without_a_mark_wait_for_each_other_and_those_with_a_test_do_not(member: Member) -> None:
    async def main() -> None:
        async with AsyncClient({0: member.endpoint}) as client:
            member.holds = True
            plain = [asyncio.create_task(client.request(operations.echo_request(n, b"%d" % n))) for n in range(3)]
            tested = asyncio.create_task(
                client.request(operations.echo_request(9, b"9"), lambda received: received[:1] == b"\x09")
            )
            await until(lambda: len(member.held) == 2)
            member.release_reversed()
            answers = [operations.decode_response(each) for each in await asyncio.gather(*plain, tested)]
            assert [answer.value for answer in answers] == [b"0", b"1", b"2", b"9"]

    run(main())


def test_no_answer_in_time_leaves_the_outcome_unknown_and_a_late_one_is_not_taken_for_another(member: Member) -> None:
    async def main() -> None:
        async with AsyncClient({0: member.endpoint}) as client:
            patience_ns = client._timeout_ns
            member.mute, client._timeout_ns = True, S // 2
            with pytest.raises(OutcomeUnknown, match="no answer within the time-out"):
                await client.write("k", b"lost")
            member.mute, member.holds = False, True
            with pytest.raises(OutcomeUnknown):
                await client.write("k", b"late")
            client._timeout_ns = patience_ns
            await until(lambda: len(member.held) >= 1)
            member.release_reversed()
            assert await client.read("k") == b"late"

    run(main())


def test_a_cancelled_request_disturbs_no_other(member: Member) -> None:
    async def main() -> None:
        async with AsyncClient({0: member.endpoint}) as client:
            member.holds = True
            calls = [asyncio.create_task(client.echo(b"%d" % number)) for number in range(10)]
            await until(lambda: len(member.held) == 10)
            for call in calls[::2]:
                call.cancel()
            member.release_reversed()
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert answers[1::2] == [b"1", b"3", b"5", b"7", b"9"]
            assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::2])
            assert await client.echo(b"again") == b"again"

    run(main())


def test_a_request_that_is_cancelled_before_it_is_sent_is_never_sent(member: Member) -> None:
    async def main() -> None:
        async with AsyncClient({0: member.endpoint}) as client:
            patience_ns = client._timeout_ns
            client.session._lose_leader()
            # Long enough for both to be waiting when one of them is cancelled.
            client._timeout_ns = 6 * S
            call = asyncio.create_task(client.append("l", b"never"))
            other = asyncio.create_task(client.append("l", b"neither"))
            await until(lambda: len(client._unsent) == 2)
            call.cancel()
            with pytest.raises(NotSent, match="AWAIT_NEW_LEADER"):
                await other
            with pytest.raises(asyncio.CancelledError):
                await call
            client._timeout_ns = patience_ns
            await client.reconnect()
            assert await client.read_list("l") == []

    run(main())


def test_an_asyncio_timeout_of_the_callers_own_works(member: Member) -> None:
    async def main() -> None:
        async with AsyncClient({0: member.endpoint}) as client:
            member.mute = True
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.echo(b"x")
            member.mute = False
            assert await client.echo(b"y") == b"y"

    run(main())


def test_what_the_service_refuses_is_told(member: Member) -> None:
    async def main() -> None:
        async with AsyncClient({0: member.endpoint}) as client:
            with pytest.raises(OperationFailed, match="no value"):
                await client.call((5).to_bytes(8, "little") + b"\x03\x01" + bytes(2) + b"\xff" * 8)

    run(main())


def test_a_message_that_is_too_long_fails_its_own_request_only(member: Member) -> None:
    async def main() -> None:
        async with AsyncClient({0: member.endpoint}) as client:
            good, bad = client.echo(b"x"), client.echo(bytes(1 << 24))
            answers = await asyncio.gather(bad, good, return_exceptions=True)
            assert isinstance(answers[0], UsageError)
            assert answers[1] == b"x"

    run(main())


def test_a_test_that_raises_fails_its_own_request_only(member: Member) -> None:
    def broken(received: object) -> bool:
        raise ValueError("broken test")

    async def main() -> None:
        async with AsyncClient({0: member.endpoint}) as client:
            request = client.request(operations.echo_request(1, b"x"), broken)
            answers = await asyncio.gather(request, client.echo(b"y"), return_exceptions=True)
            assert isinstance(answers[0], ValueError)
            assert answers[1] == b"y"

    run(main())


def test_a_closed_session_sends_nothing_until_it_reconnects(member: Member) -> None:
    async def main() -> None:
        async with AsyncClient({0: member.endpoint}) as client:
            member.mute = True
            call = asyncio.create_task(client.echo(b"x"))
            await until(lambda: client._by_operation and client._by_operation[client._next_operation_id].is_sent)
            client.session.close()
            with pytest.raises(NotSent, match="nothing was sent"):
                await client.echo(b"x")
            member.mute = False
            await client.reconnect()
            with pytest.raises(OutcomeUnknown, match="the session ended"):
                await call
            assert client.session_id == 2
            assert await client.echo(b"again") == b"again"

    run(main())


def test_closing_ends_what_is_under_way(member: Member) -> None:
    async def main() -> None:
        member.mute = True
        async with AsyncClient({0: member.endpoint}) as client:
            call = asyncio.create_task(client.echo(b"x"))
            await until(lambda: client._by_operation)
        with pytest.raises((OutcomeUnknown, NotSent)):
            await call
        await client.close()

    run(main())


def test_two_clients_live_in_one_loop_and_the_loop_runs_on_while_they_wait(member: Member) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await one_turn(0.002)

    async def main() -> None:
        async with AsyncClient({0: member.endpoint}) as one, AsyncClient({0: member.endpoint}) as two:
            assert one.session_id != two.session_id
            counter = asyncio.create_task(count())
            member.holds = True
            calls = asyncio.gather(*(client.echo(b"%d" % n) for n in range(50) for client in (one, two)))
            await until(lambda: len(member.held) == 100)
            seen = turns
            await until(lambda: turns > seen + 20)
            member.release_reversed()
            assert len(await calls) == 100
            counter.cancel()

    run(main())


def test_an_idle_client_leaves_the_processor_alone_and_keeps_its_session(member: Member) -> None:
    async def main() -> None:
        async with AsyncClient({0: member.endpoint}) as client:
            await client.echo(b"x")
            before = member.cycle.cycles
            await until(lambda: member.keep_alive_count)
            assert client.is_connected
            assert member.cycle.cycles - before < 200

    run(main())


def test_nobody_there_is_a_time_out_and_a_cancelled_connect_leaves_nothing() -> None:
    async def main() -> None:
        with pytest.raises(TimeoutExpired):
            async with AsyncClient("0=127.0.0.1:1", timeout=0.2):
                raise AssertionError("connected to nobody")
        client = AsyncClient("0=127.0.0.1:1")
        connecting = asyncio.create_task(client.connect())
        await one_turn()
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        await client.close()

    run(main())


def test_names_of_hosts_are_looked_up(member: Member) -> None:
    async def main() -> None:
        # No numeric address to the sockets, but one to a look-up of names.
        async with AsyncClient({0: member.endpoint.replace("127.0.0.1", "127.1")}) as client:
            assert await client.echo(b"x") == b"x"

    run(main())


def test_misuse_is_told(member: Member) -> None:
    async def main() -> None:
        client = AsyncClient({0: member.endpoint})
        with pytest.raises(UsageError, match="not connected"):
            await client.echo(b"x")
        async with client:
            with pytest.raises(UsageError, match="connected already"):
                await client.connect()
            calls = (client.echo(b"x", operation_id=7), client.echo(b"y", operation_id=7))
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert answers[0] == b"x"
            assert isinstance(answers[1], UsageError)
            with pytest.raises(UsageError, match="another event loop"):
                await asyncio.to_thread(lambda: asyncio.run(client.echo(b"x")))
        with pytest.raises(UsageError, match="closed"):
            await client.connect()
        with pytest.raises(UsageError):
            AsyncClient({0: member.endpoint}, timeout=0)

    run(main())
