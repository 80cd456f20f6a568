"""An engine that cannot be used: one line that says why, exit status 2, nothing left."""

import http.server
import json
import os
import shutil
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.docker_runs import command, upheaval

NOT_OURS = ("--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search")


class _OldEngine(http.server.BaseHTTPRequestHandler):
    """Answers like an engine of ten years ago."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps({"Version": "1.12.0", "ApiVersion": "1.24"}).encode()
        self.send_response(200)
        self.send_header("Api-Version", "1.24")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - what the base class calls

    def address_string(self) -> str:
        return "engine"

    def log_message(self, *arguments: object) -> None: ...


class _UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@pytest.fixture
def old_engine(tmp_path: Path) -> Iterator[str]:
    path = str(tmp_path / "old.sock")
    with _UnixServer(path, _OldEngine) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            server.shutdown()
            thread.join()


def said(done: "subprocess.CompletedProcess[str]") -> str:
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_an_engine_that_is_too_old(tmp_path: Path, old_engine: str) -> None:
    folder = tmp_path / "run"
    line = said(upheaval("up", "--runtime", "docker", "--dir", str(folder), DOCKER_HOST=old_engine))
    assert "the Docker engine is too old: it has API 1.24, 1.41 (engine 20.10) is needed" in line
    assert not folder.exists()


def test_no_permission_on_the_socket(tmp_path: Path) -> None:
    """Root without its right to read everything stands for a user outside of the engine's group."""
    path, folder = tmp_path / "engine.sock", tmp_path / "run"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        path.chmod(0)
        program = shutil.which("setpriv")
        assert program is not None, "setpriv is part of util-linux"
        done = subprocess.run(
            [program, *NOT_OURS, *command("up", "--runtime", "docker", "--dir", str(folder))],
            env={**os.environ, "DOCKER_HOST": f"unix://{path}"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert "no permission to use the Docker engine's socket" in said(done)
    assert not folder.exists()


def test_what_cannot_be_collected_is_not_lost(tmp_path: Path, node_image: str) -> None:
    """A file where a member's folder is to be stands for a disk that takes nothing."""
    folder = tmp_path / "run"
    where = ("--dir", str(folder))
    assert upheaval("up", "--runtime", "docker", "--members", "1", *where).returncode == 0
    try:
        assert upheaval("client", *where, "register", "write", "k", "5").returncode == 0
        in_the_way = folder / "member-0.new"
        in_the_way.write_text("")
        done = upheaval("down", *where)
        assert "cannot bring what" in said(done)
        in_the_way.unlink()
        assert upheaval("up", *where).returncode == 0
        assert upheaval("client", *where, "--timeout", "30", "register", "read", "k").stdout == "5\n"
    finally:
        assert upheaval("down", *where).returncode == 0
    assert (folder / "member-0" / "cluster" / "recording.log").is_file()
