"""Toxiproxy by its HTTP API: what the faults of links need of it, with time-outs and with every refusal an error.

Two implementations of one interface. `PythonToxiproxy` drives it through the package toxiproxy-python and is what the
docker runtime uses. `StandardToxiproxy` needs the standard library only, because the process runtime has to work
without any package; `connect_toxiproxy` takes the first where the package is installed. Both drive a real Toxiproxy
(started with `-proxy-metrics`) and the proxies of this process alike.
"""

import importlib.util
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

from upheaval_chaos.errors import EnvironmentFault
from upheaval_chaos.programs import printed

_TIMEOUT_S: Final = 10.0
_NO_PROXIES: Final = {"http": None, "all": None}
"""For `requests`: the API is on this machine or the engine's, and `HTTP_PROXY` is for other places."""
_SENT: Final = re.compile(r"^toxiproxy_proxy_sent_bytes_total\{([^}]*)\} ([0-9.e+]+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


class ToxiproxyApi(ABC):
    """One Toxiproxy by the address of its API."""

    def __init__(self, address: str) -> None:
        self.address = address

    def create(self, name: str, upstream: str, listen: str = "127.0.0.1:0", protocol: str = "tcp") -> str:
        """Make a proxy; returns where it listens. Only the proxies of this process have another protocol: `udp`."""
        fields = {"name": name, "upstream": upstream, "listen": listen, "enabled": True}
        if protocol != "tcp":
            fields["protocol"] = protocol
        return str(json.loads(self._call("POST", "/proxies", fields))["listen"])

    def populate(self, proxies: Mapping[str, tuple[str, str]]) -> None:
        """Make many proxies at once: by name, where each listens and what its upstream is."""
        fields = [
            {"name": name, "listen": listen, "upstream": upstream, "enabled": True}
            for name, (listen, upstream) in proxies.items()
        ]
        self._call("POST", "/populate", fields)

    def add_toxic(
        self, proxy: str, kind: str, stream: str, attributes: Mapping[str, int], toxicity: float = 1.0
    ) -> None:
        """The toxic is named after its type and stream."""
        fields = {"name": f"{kind}_{stream}", "type": kind, "stream": stream, "attributes": dict(attributes)}
        self._call("POST", f"/proxies/{proxy}/toxics", {**fields, "toxicity": toxicity})

    def remove_toxic(self, proxy: str, kind: str, stream: str) -> None:
        """Take away what `add_toxic` put there."""
        self._call("DELETE", f"/proxies/{proxy}/toxics/{kind}_{stream}")

    def take_seen(self) -> Mapping[str, Any]:
        """See `SeenDatagrams.take`; the proxies of this project alone have it."""
        taken: Mapping[str, Any] = json.loads(self._call("POST", "/seen"))
        return taken

    def version(self) -> str:
        """Answers when the server is up. Its form differs between versions."""
        return self._call("GET", "/version")

    def sent_bytes(self) -> dict[tuple[str, str], int]:
        """Bytes written to the receivers, by proxy and stream. A real Toxiproxy counts a connection when it ends."""
        found: dict[tuple[str, str], int] = {}
        for labels_text, count in _SENT.findall(self._call("GET", "/metrics")):
            labels = dict(_LABEL.findall(labels_text))
            found[labels["proxy"], labels["direction"]] = int(float(count))
        return found

    @abstractmethod
    def _call(self, method: str, path: str, fields: object = None) -> str:
        """The body of the answer. Raises `EnvironmentFault` when there is none or it is a refusal."""

    def _require_done(self, method: str, path: str, status: int, text: str) -> str:
        if status >= 300:
            raise EnvironmentFault(f"Toxiproxy refused {method} {path}: {text.strip()}")
        return text

    def _silent(self, error: Exception) -> EnvironmentFault:
        return EnvironmentFault(f"Toxiproxy at {self.address} does not answer: {error}")


class StandardToxiproxy(ToxiproxyApi):
    """With the standard library."""

    def _call(self, method: str, path: str, fields: object = None) -> str:
        # With it comes the package of e-mail, which most commands would import for nothing.
        import http.client

        connection = http.client.HTTPConnection(self.address, timeout=_TIMEOUT_S)
        body = None if fields is None else json.dumps(fields)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = printed(response.read())
        except (OSError, http.client.HTTPException) as error:
            raise self._silent(error) from error
        finally:
            connection.close()
        return self._require_done(method, path, response.status, text)


class PythonToxiproxy(ToxiproxyApi):
    """With toxiproxy-python, whose objects share one server, wait for ever and take errors of a server for answers.

    So each instance has an API consumer of its own, a subclass of the package's with another host and port, and every
    call a time-out and a look at its status.
    """

    def __init__(self, address: str) -> None:
        from toxiproxy.api import APIConsumer

        super().__init__(address)
        host, _, port = address.rpartition(":")
        self._consumer: Any = type("Consumer", (APIConsumer,), {"host": host, "port": int(port)})

    def _call(self, method: str, path: str, fields: object = None) -> str:
        import requests
        from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

        arguments = {} if fields is None else {"json": fields}
        options = {"timeout": _TIMEOUT_S, "proxies": _NO_PROXIES}
        try:
            response = getattr(self._consumer, method.lower())(path, **options, **arguments)
        except (InvalidToxic, NotFound, ProxyExists) as error:
            text = printed(error.args[0]) if error.args else ""
            raise EnvironmentFault(f"Toxiproxy refused {method} {path}: {text.strip()}") from error
        except requests.exceptions.RequestException as error:
            raise self._silent(error) from error
        return self._require_done(method, path, response.status_code, response.text)


def connect_toxiproxy(address: str) -> ToxiproxyApi:
    """With toxiproxy-python where it is installed."""
    if importlib.util.find_spec("toxiproxy") is None:
        return StandardToxiproxy(address)
    return PythonToxiproxy(address)
