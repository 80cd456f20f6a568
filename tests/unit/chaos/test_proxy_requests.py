"""Requests to the API of the proxies that come at the same time, or that no client of Toxiproxy sends."""

import asyncio
import json
from http import HTTPStatus
from random import Random

import pytest

from upheaval_chaos.proxy import Proxy
from upheaval_chaos.proxy_api import ProxyApi

P = {"name": "p", "upstream": "127.0.0.1:9"}


def an_api() -> ProxyApi:
    return ProxyApi(Random(1), {"tcp": Proxy})


async def ask(api: ProxyApi, method: str, path: str, body: bytes = b"") -> int:
    """The status of the answer."""
    server = await api.serve("127.0.0.1")
    try:
        host, port = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(f"{method} {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reader.read()
        writer.close()
    finally:
        server.close()
    return int(answer.split()[1]) if answer else 0


@pytest.mark.parametrize("path", ["/proxies", "/populate"])
@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b"{"], ids=["lists", "objects", "torn"])
def test_json_that_cannot_be_read_is_refused(path: str, body: bytes) -> None:
    assert asyncio.run(ask(an_api(), "POST", path, body)) == HTTPStatus.BAD_REQUEST


def test_of_two_creations_of_one_name_the_second_is_refused() -> None:
    async def create_twice() -> tuple[list[int], int]:
        api = an_api()
        body = json.dumps(P).encode()
        statuses = await asyncio.gather(*(ask(api, "POST", "/proxies", body) for _ in range(2)))
        made = len(api.proxies)
        await api.close()
        return sorted(statuses), made

    assert asyncio.run(create_twice()) == ([HTTPStatus.CREATED, HTTPStatus.CONFLICT], 1)


def test_a_proxy_that_cannot_listen_leaves_its_name_free() -> None:
    async def create() -> list[int]:
        api = an_api()
        taken = await asyncio.start_server(lambda *_: None, "127.0.0.1")
        host, port = taken.sockets[0].getsockname()
        bodies = [json.dumps({**P, "listen": listen}).encode() for listen in (f"{host}:{port}", f"{host}:0")]
        statuses = [await ask(api, "POST", "/proxies", body) for body in bodies]
        taken.close()
        await api.close()
        return statuses

    assert asyncio.run(create()) == [HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.CREATED]


def test_a_proxy_that_is_deleted_while_it_is_created_does_not_listen() -> None:
    async def create_and_delete() -> list[bool]:
        api = an_api()
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1")
        host, port = server.sockets[0].getsockname()
        server.close()
        body = json.dumps({**P, "listen": f"{host}:{port}"}).encode()
        await asyncio.gather(ask(api, "POST", "/proxies", body), ask(api, "DELETE", "/proxies/p"))
        is_there = "p" in api.proxies
        try:
            _, writer = await asyncio.open_connection(host, port)
        except ConnectionRefusedError:
            return [is_there, False]
        writer.close()
        await api.close()
        return [is_there, True]

    assert asyncio.run(create_and_delete()) in ([True, True], [False, False])
