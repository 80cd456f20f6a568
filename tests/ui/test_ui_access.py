"""Who gets into the pages of `upheaval ui`: the token, the host's name, the origin, and what reads only."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.page_servers import LONG_S, ask, serving
from upheaval.cli.main import main
from upheaval.ui.server import PageServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    with serving(PageServer(tmp_path_factory.mktemp("runs"), is_read_only=True)) as server:
        yield server


def test_a_client_that_is_earlier_than_the_server_waits_for_it(tmp_path: Path) -> None:
    early = PageServer(tmp_path)
    with socket.create_connection(("127.0.0.1", early.port), timeout=LONG_S) as connection:
        connection.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{early.port}\r\nConnection: close\r\n\r\n".encode())
        with serving(early):
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 403 ")


def test_without_the_token_nothing_is_served(server: PageServer) -> None:
    for headers in ({}, {"Authorization": "Bearer x"}, {"Cookie": f"upheaval-ui-{server.port}=x"}, {"Cookie": "=;="}):
        for path in ("/", "/?token=x", "/api/runs", "/static/ui.css"):
            answer = ask(server, path, headers=headers)
            assert answer.status == 403, (path, headers)
            assert "it has the token" in answer.text


def test_the_address_with_the_token_becomes_a_cookie_that_scripts_cannot_read(server: PageServer) -> None:
    visit = ask(server, server.address.partition(str(server.port))[2], headers={})
    assert (visit.status, visit.headers["location"]) == (303, "/")
    cookie, *attributes = visit.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict"} <= set(attributes)
    assert ask(server, "/", headers={"Cookie": cookie}).status == 200


def test_cookies_of_two_servers_in_one_browser_do_not_mix(server: PageServer, tmp_path: Path) -> None:
    with serving(PageServer(tmp_path)) as other:
        servers = (server, other)
        cookies = "; ".join(f"upheaval-ui-{each.port}={each.token}" for each in servers)
        swapped = f"upheaval-ui-{server.port}={other.token}; upheaval-ui-{other.port}={server.token}"
        assert [ask(each, "/", headers={"Cookie": cookies}).status for each in servers] == [200, 200]
        assert [ask(each, "/", headers={"Cookie": swapped}).status for each in servers] == [403, 403]


def test_the_first_visit_stays_on_this_server(server: PageServer) -> None:
    visit = ask(server, f"//evil.example/runs?token={server.token}", headers={})
    assert (visit.status, visit.headers["location"]) == (303, "/evil.example/runs")


def test_another_name_or_another_site_is_refused_even_with_the_token(server: PageServer) -> None:
    token = {"Authorization": f"Bearer {server.token}"}
    assert ask(server, "/", headers={**token, "Host": f"evil.example:{server.port}"}).status == 421
    assert ask(server, "/", headers={**token, "Origin": "http://evil.example"}).status == 403
    own = f"http://127.0.0.1:{server.port}"
    answer = ask(server, "/", headers={**token, "Origin": own})
    assert answer.status == 200
    assert "access-control-allow-origin" not in answer.headers


def test_no_page_may_load_or_run_what_is_not_the_servers_own(server: PageServer) -> None:
    headers = ask(server, "/").headers
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_read_only_refuses_whatever_changes_something(server: PageServer) -> None:
    for method in ("POST", "PUT", "DELETE"):
        answer = ask(server, "/", method=method, body={})
        assert (answer.status, "--read-only" in answer.text) == (403, True)


def test_a_port_in_use_and_a_folder_that_is_not_there_are_one_line(
    server: PageServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, reason in (
        (["--dir", tmp_path, "--port", server.port], f"cannot listen on port {server.port}"),
        (["--dir", tmp_path / "none", "--port", 0], "there is no folder"),
        (["--port", 70_000], "expected a port from 0 to 65535"),
    ):
        try:
            status = main(["ui", *map(str, arguments)])
        except SystemExit as end:
            status = int(end.code or 0)
        err = capsys.readouterr().err
        assert (status, len(err.splitlines()), reason in err) == (2, 1, True), err
