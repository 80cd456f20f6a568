"""An engine that cannot be used: one line that says why, exit status 2, nothing left."""

import contextlib
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
from upheaval_node import __version__

NOT_OURS = ("--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search")


class _Engine(http.server.BaseHTTPRequestHandler):
    """Answers as an engine does that has the node's image and no other."""

    protocol_version = "HTTP/1.1"
    engine, api = "20.10.24", "1.41"

    def do_GET(self) -> None:
        path = self.path.partition("/images/")[2]
        if not path:
            self._answer(200, {"Version": self.engine, "ApiVersion": self.api, "MinAPIVersion": "1.12"})
        elif "node" in path:
            self._answer(200, {"Id": "sha256:" + "0" * 64})
        else:
            self._answer(404, {"message": "No such image"})

    do_HEAD = do_GET  # noqa: N815 - what the base class calls

    def _answer(self, status: int, fields: dict[str, str]) -> None:
        body = json.dumps(fields).encode()
        self.send_response(status)
        self.send_header("Api-Version", self.api)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "engine"

    def log_message(self, *arguments: object) -> None: ...


class _OldEngine(_Engine):
    """Answers like an engine of ten years ago."""

    engine, api = "1.12.0", "1.24"


class _UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextlib.contextmanager
def answering(path: Path, engine: type[_Engine]) -> Iterator[str]:
    """Serve as that engine; where."""
    with _UnixServer(str(path), engine) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def old_engine(tmp_path: Path) -> Iterator[str]:
    with answering(tmp_path / "old.sock", _OldEngine) as address:
        yield address


@pytest.fixture
def old_engine_at_tcp() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _OldEngine) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"tcp://127.0.0.1:{server.server_port}"
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


@pytest.mark.parametrize("exempt", ["", "example.org"])
def test_an_engine_at_tcp_is_reached_past_a_proxy_of_the_caller(
    tmp_path: Path, old_engine_at_tcp: str, exempt: str
) -> None:
    proxy = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"), "http://127.0.0.1:9")
    surroundings = {**proxy, "DOCKER_HOST": old_engine_at_tcp, "NO_PROXY": exempt, "no_proxy": exempt}
    line = said(upheaval("up", "--runtime", "docker", "--dir", str(tmp_path / "run"), **surroundings))
    assert "the Docker engine is too old" in line


@pytest.mark.parametrize(("means", "image"), [("proxy", "toxiproxy"), ("packets", "netfault")])
def test_an_image_for_links_is_missed_before_anything_is_made(tmp_path: Path, means: str, image: str) -> None:
    folder, text = tmp_path / "run", tmp_path / "cut.scenario"
    text.write_text(f"title x\nwait operations 1\ninject x blackhole leader <-> follower by={means}\n")
    with answering(tmp_path / "bare.sock", _Engine) as address:
        done = upheaval("run", str(text), "--runtime", "docker", "--dir", str(folder), DOCKER_HOST=address)
    line = f"the image upheaval/{image}:{__version__} is missing: build it with `upheaval images build {image}`"
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.endswith(f"\nupheaval: {line}\n")
    assert not folder.exists()


def test_an_engine_at_ssh(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    line = said(upheaval("up", "--runtime", "docker", "--dir", str(folder), DOCKER_HOST="ssh://someone@127.0.0.1"))
    assert "engines at ssh:// are not supported" in line
    assert not folder.exists()


def test_an_address_that_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    line = said(upheaval("up", "--runtime", "docker", "--dir", str(folder), DOCKER_HOST="tcp://[::1"))
    assert "DOCKER_HOST is not the address of an engine: Invalid IPv6 URL" in line
    assert not folder.exists()


def test_no_permission_on_the_socket(tmp_path: Path) -> None:
    """Root without its right to read everything takes the place of a user outside of the engine's group."""
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
    """A file where a member's folder is to be has the effect of a disk that takes nothing."""
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
