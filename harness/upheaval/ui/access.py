"""Who may use the pages: any client with the token, from a page of the same origin, under a name of this machine.

A site of a stranger that has its name resolved to loopback sends its own name as `Host`; one that posts a form to us
sends its own `Origin`. Both are refused. The token is in the address that the command prints, and in a cookie from then
on, which scripts cannot read and other sites cannot send.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qs, quote

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

TOKEN: Final = "token"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Of every answer that sets no other policy."""
_HEADERS: Final = (
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("cross-origin-resource-policy", "same-origin"),
)
_READS: Final = ("GET", "HEAD")


class Access:
    """An ASGI application in front of another one, which gets only what may come in."""

    def __init__(self, app: App, *, port: int, token: str, is_read_only: bool) -> None:
        self._app = app
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self._cookie = f"upheaval-ui-{port}"
        self._token = token
        self._is_read_only = is_read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers by itself what may not come in, and the first visit, which gets the cookie."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope["method"], headers)
        if refusal:
            await _answer(send, *refusal)
        elif self._is_token(_asked_token(scope)) and scope["method"] in _READS:
            cookie = f"{self._cookie}={self._token}; HttpOnly; SameSite=Strict; Path=/"
            # Two slashes at the beginning would name another host.
            location = "/" + quote(scope["path"].lstrip("/"))
            await _answer(send, 303, "", [("location", location), ("set-cookie", cookie)])
        elif not self._is_token(self._own_token(headers)):
            await _answer(send, 403, "open the address that `upheaval ui` printed: it has the token")
        else:
            await self._app(scope, receive, _with_headers(send))

    def _refusal(self, method: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """The status and why, of what no token lets in."""
        if headers.get("host") not in self._hosts:
            return 421, f"this is no host of `upheaval ui`: use {' or '.join(sorted(self._hosts))}"
        origin = headers.get("origin")
        if origin is not None and origin not in {f"http://{host}" for host in self._hosts}:
            return 403, "another site may not use these pages"
        if method not in _READS and self._is_read_only:
            return 403, "`upheaval ui --read-only` changes nothing"
        return None

    def _own_token(self, headers: Mapping[str, str]) -> str:
        """Of the cookie, or of a program's header `Authorization: Bearer TOKEN`."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return token
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return ""
        return str(cookies[self._cookie].value) if self._cookie in cookies else ""

    def _is_token(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self._token.encode())


def _asked_token(scope: Scope) -> str:
    values = parse_qs(scope["query_string"].decode("latin-1")).get(TOKEN, [""])
    return str(values[0])


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            names = {name for name, _ in message["headers"]}
            policy = ("content-security-policy", POLICY)
            added = [(name.encode(), value.encode()) for name, value in (*_HEADERS, policy)]
            message["headers"] = [*message["headers"], *(pair for pair in added if pair[0] not in names)]
        await send(message)

    return send_with_headers


async def _answer(send: Send, status: int, text: str, headers: list[tuple[str, str]] | None = None) -> None:
    own = [("content-type", "text/plain; charset=utf-8"), ("content-security-policy", POLICY), *_HEADERS]
    encoded = [(name.encode(), value.encode()) for name, value in (*own, *(headers or ()))]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": (text + "\n" if text else "").encode()})
