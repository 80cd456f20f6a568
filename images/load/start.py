"""The first process of the load image: locust, with users of a cluster.

Says in one line what is missing, then becomes locust; the locustfile beside it reads the same environment. With
`--is-healthy` it tells whether locust's page answers, or, of a locust without a page, nothing but that it runs.
"""

import http.client
import os
import sys
from pathlib import Path

USAGE = 2
PAGE_PORT = 8089
LOCUSTFILE = Path(__file__).with_name("locustfile.py")


def is_headless() -> bool:
    """Whether the container's first processes run locust without a page."""
    arguments = [Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in _processes()]
    is_wished = os.environ.get("LOCUST_HEADLESS", "").lower() in ("1", "true")
    return is_wished or any(b"--headless" in each for each in arguments)


def answers() -> bool:
    """Whether the page is there."""
    connection = http.client.HTTPConnection("127.0.0.1", int(os.environ.get("LOCUST_WEB_PORT", PAGE_PORT)), timeout=3)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()


def _processes() -> list[str]:
    return [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()]


if __name__ == "__main__":
    if sys.argv[1:] == ["--is-healthy"]:
        sys.exit(0 if is_headless() or answers() else 1)
    if not os.environ.get("UPHEAVAL_ENDPOINTS"):
        print("upheaval-load: UPHEAVAL_ENDPOINTS is missing, such as 0=member-0:9001,1=member-1:9001", file=sys.stderr)
        sys.exit(USAGE)
    os.execv(sys.executable, [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), *sys.argv[1:]])
