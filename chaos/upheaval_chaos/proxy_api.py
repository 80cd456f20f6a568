"""Toxiproxy's HTTP API in front of the proxies of this process, so that any of its clients drives them.

JSON in and out, one request a connection. A proxy with the field `protocol` of `udp` is one of datagrams, and has their
toxics. `POST /seen` is for observers: it takes what was kept of the datagrams that passed. This module carries no bytes
of what is proxied.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from random import Random
from typing import Final

from upheaval_chaos.any_proxy import AnyProxy
from upheaval_chaos.seen_datagrams import SeenDatagrams
from upheaval_chaos.toxics import STREAMS, ToxicError, toxic_from_fields

VERSION: Final = "2.12.0"
"""The version of Toxiproxy with the same API."""
_BODY_MAX: Final = 1 << 20
_HEADERS_MAX: Final = 100
_REQUEST_TIMEOUT_S: Final = 10.0
_COUNTED: Final = [(what, unit) for unit in ("bytes", "datagrams") for what in ("received", "sent")]

Reply = tuple[HTTPStatus, object]
Kinds = Mapping[str, Callable[[str, str, str, Random], AnyProxy]]
"""Creates a proxy, by protocol, from its name, listen address, upstream and random generator."""


class _Refused(Exception):
    """A request whose answer is an error."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class ProxyApi:
    """All proxies, and the requests that create, change and end them."""

    def __init__(self, random: Random, kinds: Kinds) -> None:
        self.proxies: dict[str, AnyProxy] = {}
        self.seen = SeenDatagrams(self.proxies)
        self._kinds = kinds
        self._random = random
        self._one_at_a_time = asyncio.Lock()

    async def serve(self, host: str, port: int = 0) -> asyncio.Server:
        """Answer requests on a port of `host`, by default a free one. Raises `OSError` when that cannot be bound."""
        return await asyncio.start_server(self._answer, host, port)

    async def close(self) -> None:
        """Disable every proxy: nothing listens, and every connection is dropped."""
        for proxy in list(self.proxies.values()):
            await proxy.disable()

    # --- HTTP ---

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            method, path, body = await asyncio.wait_for(_read_request(reader), _REQUEST_TIMEOUT_S)
            try:
                async with self._one_at_a_time:
                    status, answer = await self.handle(method, path, body)
            except _Refused as refused:
                status, answer = refused.status, {"error": str(refused), "status": refused.status.value}
            writer.write(_format_reply(status, answer))
            await writer.drain()
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
            # A client without a request gets no answer.
            return
        finally:
            writer.close()

    async def handle(self, method: str, path: str, body: bytes) -> Reply:
        """The answer to one request. Raises `_Refused`."""
        parts = [part for part in path.partition("?")[0].split("/") if part]
        match method, parts:
            case "GET", ["version"]:
                return HTTPStatus.OK, {"version": VERSION}
            case "GET", ["metrics"]:
                return HTTPStatus.OK, self._metrics()
            case "POST", ["seen"]:
                return HTTPStatus.OK, self.seen.take(time.monotonic_ns())
            case "POST", ["reset"]:
                await self._reset()
                return HTTPStatus.NO_CONTENT, None
            case "GET", ["proxies"]:
                return HTTPStatus.OK, {name: proxy.to_fields() for name, proxy in self.proxies.items()}
            case "POST", ["proxies"]:
                return HTTPStatus.CREATED, (await self._create(_object(body))).to_fields()
            case "POST", ["populate"]:
                return HTTPStatus.CREATED, {"proxies": await self._populate(body)}
            case _, ["proxies", name]:
                return await self._handle_proxy(method, self._proxy(name), body)
            case _, ["proxies", name, "toxics", *rest]:
                return await self._handle_toxics(method, self._proxy(name), rest, body)
        raise _Refused(HTTPStatus.NOT_FOUND, f"unknown {method} {path}")

    async def _handle_proxy(self, method: str, proxy: AnyProxy, body: bytes) -> Reply:
        if method == "DELETE":
            del self.proxies[proxy.name]
            await proxy.disable()
            return HTTPStatus.NO_CONTENT, None
        if method in ("POST", "PATCH"):
            await self._update(proxy, _object(body))
        elif method != "GET":
            raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} of a proxy")
        return HTTPStatus.OK, proxy.to_fields()

    async def _handle_toxics(self, method: str, proxy: AnyProxy, rest: list[str], body: bytes) -> Reply:
        try:
            if not rest:
                if method == "GET":
                    return HTTPStatus.OK, [toxic.to_fields() for toxic in proxy.toxics.values()]
                toxic = toxic_from_fields(_object(body), types=proxy.types)
                if toxic.name in proxy.toxics:
                    raise _Refused(HTTPStatus.CONFLICT, f"toxic {toxic.name!r} already exists")
                proxy.put_toxic(toxic)
                return HTTPStatus.OK, toxic.to_fields()
            known = proxy.toxics.get(rest[0])
            if known is None:
                raise _Refused(HTTPStatus.NOT_FOUND, f"toxic {rest[0]!r} not found")
            if method == "DELETE":
                await proxy.remove_toxic(known.name)
                return HTTPStatus.NO_CONTENT, None
            if method in ("POST", "PATCH"):
                known = toxic_from_fields(_object(body), known, proxy.types)
                proxy.put_toxic(known)
            return HTTPStatus.OK, known.to_fields()
        except ToxicError as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, str(error)) from None

    # --- proxies ---

    def _proxy(self, name: str) -> AnyProxy:
        if name not in self.proxies:
            raise _Refused(HTTPStatus.NOT_FOUND, f"proxy {name!r} not found")
        return self.proxies[name]

    async def _create(self, fields: Mapping[str, object]) -> AnyProxy:
        name, upstream = fields.get("name"), fields.get("upstream")
        if not isinstance(name, str) or not name or not isinstance(upstream, str) or not upstream:
            raise _Refused(HTTPStatus.BAD_REQUEST, "a proxy needs a name and an upstream")
        if name in self.proxies:
            raise _Refused(HTTPStatus.CONFLICT, f"proxy {name!r} already exists")
        listen = fields.get("listen") or "127.0.0.1:0"
        kind = str(fields.get("protocol") or "tcp")
        if kind not in self._kinds:
            raise _Refused(HTTPStatus.BAD_REQUEST, f"unknown protocol {kind!r}: use {', '.join(self._kinds)}")
        proxy = self._kinds[kind](name, _address(listen), _address(upstream), self._random)
        if fields.get("enabled", True):
            await _enable(proxy)
        self.proxies[name] = proxy
        return proxy

    async def _update(self, proxy: AnyProxy, fields: Mapping[str, object]) -> None:
        listen, upstream = fields.get("listen", proxy.listen), fields.get("upstream", proxy.upstream)
        enabled = bool(fields.get("enabled", proxy.enabled))
        if (listen, upstream) != (proxy.listen, proxy.upstream):
            await proxy.disable()
            proxy.listen, proxy.upstream = _address(listen), _address(upstream)
        if enabled:
            await _enable(proxy)
        else:
            await proxy.disable()

    async def _populate(self, body: bytes) -> list[object]:
        wanted = _json(body)
        if not isinstance(wanted, list) or not all(isinstance(fields, Mapping) for fields in wanted):
            raise _Refused(HTTPStatus.BAD_REQUEST, "populate needs a list of proxies")
        made: list[object] = []
        for fields in wanted:
            known = self.proxies.get(str(fields.get("name")))
            if known is None:
                known = await self._create(fields)
            else:
                await self._update(known, fields)
            made.append(known.to_fields())
        return made

    async def _reset(self) -> None:
        """All proxies carry again, without toxics."""
        for proxy in list(self.proxies.values()):
            for name in list(proxy.toxics):
                await proxy.remove_toxic(name)
            await _enable(proxy)

    def _metrics(self) -> str:
        """The counts in Prometheus' text format, with Toxiproxy's names, which has none for datagrams."""
        lines = []
        for what, unit in _COUNTED:
            lines.append(f"# TYPE toxiproxy_proxy_{what}_{unit}_total counter")
            for proxy in self.proxies.values():
                for stream in STREAMS:
                    labels = f'direction="{stream}",listener="{proxy.listen}",proxy="{proxy.name}"'
                    labels += f',upstream="{proxy.upstream}"'
                    count = getattr(proxy.traffic[stream], what if unit == "bytes" else f"{unit}_{what}")
                    lines.append(f"toxiproxy_proxy_{what}_{unit}_total{{{labels}}} {count}")
        return "\n".join(lines) + "\n"


async def _enable(proxy: AnyProxy) -> None:
    try:
        await proxy.enable()
    except OSError as error:
        raise _Refused(HTTPStatus.INTERNAL_SERVER_ERROR, f"cannot listen on {proxy.listen}: {error.strerror}") from None


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, str, bytes]:
    """Method, path and body. Raises `ValueError` for what is no request."""
    method, path, _ = (await reader.readline()).decode("latin-1").split()
    length = 0
    for _ in range(_HEADERS_MAX):
        line = (await reader.readline()).decode("latin-1").strip()
        if not line:
            break
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            length = int(value)
    if not 0 <= length <= _BODY_MAX:
        raise ValueError("the body is too long")
    return method, path, await reader.readexactly(length)


def _format_reply(status: HTTPStatus, answer: object) -> bytes:
    kind, body = "application/json", b""
    if isinstance(answer, str):
        kind, body = "text/plain; version=0.0.4", answer.encode()
    elif answer is not None:
        body = json.dumps(answer).encode()
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode("latin-1") + body


def _json(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _Refused(HTTPStatus.BAD_REQUEST, f"bad request body: {error}") from None


def _object(body: bytes) -> Mapping[str, object]:
    value = _json(body)
    if not isinstance(value, dict):
        raise _Refused(HTTPStatus.BAD_REQUEST, "bad request body: it must be an object")
    return value


def _address(text: object) -> str:
    host, separator, port = str(text).rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
        raise _Refused(HTTPStatus.BAD_REQUEST, f"expected host:port, got {text!r}")
    return f"{host or '127.0.0.1'}:{port}"
