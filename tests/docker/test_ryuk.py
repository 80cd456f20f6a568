"""Where Ryuk's image is in the engine it is used: what a killed harness left goes without another start.

Ryuk itself cannot be had without a registry, so the image is a small program that keeps its protocol: it takes filters
line by line and removes what they name when the last connection has ended.
"""

import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.docker_runs import ENGINE_INTERVAL_S, command, left_of, wait_for_members
from upheaval.records import RunFolder
from upheaval.runtimes.docker.engine import Client
from upheaval.waits import wait_until

TAG = "upheaval-test/ryuk:1"
PROGRAM = """
import http.client, json, socket, time, urllib.parse

class Engine(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("/var/run/docker.sock")

def call(method, path):
    engine = Engine("engine")
    engine.request(method, path)
    answer = engine.getresponse().read()
    return json.loads(answer) if answer and method == "GET" else None

listener = socket.create_server(("0.0.0.0", 8080))
print("Started!", flush=True)
connection, _ = listener.accept()
said = connection.makefile("rw", newline="\\n")
labels = []
try:
    for line in said:
        labels.append(line.strip().removeprefix("label="))
        said.write("ACK\\n")
        said.flush()
except ConnectionError:
    pass  # a killed peer that had not read everything
wanted = urllib.parse.quote(json.dumps({"label": labels}))
quiet = 0
while quiet < 3:  # what was under way when the harness died may still appear
    found = [f"/containers/{each['Id']}?force=1&v=1"
             for each in call("GET", f"/containers/json?all=1&filters={wanted}")]
    found += [f"/networks/{each['Id']}" for each in call("GET", f"/networks?filters={wanted}")]
    found += [f"/volumes/{each['Name']}?force=1" for each in call("GET", f"/volumes?filters={wanted}")["Volumes"] or ()]
    for path in found:
        call("DELETE", path)
    quiet = 0 if found else quiet + 1
    time.sleep(1)
"""


@pytest.fixture
def ryuk(engine: Client, node_image: str) -> Iterator[str]:
    files = {
        "Dockerfile": f"FROM {node_image}\nUSER 0\nHEALTHCHECK NONE\nCOPY ryuk.py /ryuk.py\n"
        'ENTRYPOINT ["python3", "/ryuk.py"]\n',
        "ryuk.py": PROGRAM,
    }
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    context.seek(0)
    engine.images.build(fileobj=context, custom_context=True, tag=TAG, rm=True, forcerm=True)
    yield TAG
    engine.images.remove(TAG, force=True)


def test_ryuk_removes_what_a_killed_harness_left(tmp_path: Path, ryuk: str, engine: Client) -> None:
    folder = tmp_path / "demo"
    arguments = command("demo", "--runtime", "docker", "--dir", str(folder), "--operations", "1000000")
    log = tmp_path / "said"
    with log.open("wb") as said:
        environment = ["env", f"RYUK_CONTAINER_IMAGE={ryuk}", *arguments]
        process = subprocess.Popen(environment, stdout=subprocess.DEVNULL, stderr=said)
    with process:
        try:
            run = RunFolder(folder)
            wait_until(run.manifest_file.exists, timeout_s=240, describe=lambda: "the demo does not begin")
            run_id = run.read_manifest().run_id
            wait_for_members(engine, run_id)
        finally:
            process.kill()
    wait_until(
        lambda: not left_of(engine, run_id),
        timeout_s=240,
        describe=lambda: "Ryuk leaves something",
        interval_s=ENGINE_INTERVAL_S,
    )
    assert "containers: cleaned by Ryuk" in log.read_text(encoding="utf-8")
