"""A small client of Toxiproxy's HTTP API, of the standard library only: what the faults of links need of it.

Works with the proxies of this process and with a real Toxiproxy (started with `-proxy-metrics`).
"""

import http.client
import json
import re
from collections.abc import Mapping
from typing import Final

from upheaval.errors import EnvironmentFault

_TIMEOUT_S: Final = 10.0
_SENT: Final = re.compile(r"^toxiproxy_proxy_sent_bytes_total\{([^}]*)\} ([0-9.e+]+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


class ToxiproxyClient:
    """One Toxiproxy by the address of its API."""

    def __init__(self, address: str) -> None:
        self._address = address

    def create(self, name: str, upstream: str, listen: str = "127.0.0.1:0") -> str:
        """Make a proxy; returns where it listens."""
        fields = self._call("POST", "/proxies", {"name": name, "upstream": upstream, "listen": listen, "enabled": True})
        return str(json.loads(fields)["listen"])

    def add_toxic(self, proxy: str, kind: str, stream: str, attributes: Mapping[str, int]) -> None:
        """The toxic is named after its type and stream."""
        fields = {"name": f"{kind}_{stream}", "type": kind, "stream": stream, "attributes": dict(attributes)}
        self._call("POST", f"/proxies/{proxy}/toxics", {**fields, "toxicity": 1.0})

    def remove_toxic(self, proxy: str, kind: str, stream: str) -> None:
        self._call("DELETE", f"/proxies/{proxy}/toxics/{kind}_{stream}")

    def sent_bytes(self) -> dict[tuple[str, str], int]:
        """Bytes written to the receivers, by proxy and stream."""
        found: dict[tuple[str, str], int] = {}
        for labels_text, count in _SENT.findall(self._call("GET", "/metrics")):
            labels = dict(_LABEL.findall(labels_text))
            found[labels["proxy"], labels["direction"]] = int(float(count))
        return found

    def _call(self, method: str, path: str, fields: Mapping[str, object] | None = None) -> str:
        """The body of the answer. Raises `EnvironmentFault` when there is none or it is a refusal."""
        connection = http.client.HTTPConnection(self._address, timeout=_TIMEOUT_S)
        body = None if fields is None else json.dumps(fields)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
        except OSError as error:
            raise EnvironmentFault(f"Toxiproxy at {self._address} does not answer: {error}") from error
        finally:
            connection.close()
        if response.status >= 300:
            raise EnvironmentFault(f"Toxiproxy refused {method} {path}: {text.strip()}")
        return text
