"""A server of `upheaval ui` in a thread, and requests to it as a program makes them."""

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from upheaval.ui.server import PageServer
from upheaval.waits import wait_until

LONG_S = 480
"""Within an answer a cluster may start; within the end of a server all that it started ends."""


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@contextmanager
def serving(server: PageServer) -> Iterator[PageServer]:
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.is_started, timeout_s=LONG_S, describe=lambda: "the server does not start")
        yield server
    finally:
        server.end()
        thread.join(LONG_S)
    assert not thread.is_alive()


def ask(
    server: PageServer, path: str, *, method: str = "GET", body: Any = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """With the token, unless `headers` are given."""
    sent = {"Authorization": f"Bearer {server.token}"} if headers is None else dict(headers)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LONG_S)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), sent)
        got = connection.getresponse()
        return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read().decode())
    finally:
        connection.close()
