"""DOCKER_CONTEXT, which the `docker` command follows and the Python packages do not."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from upheaval.errors import EnvironmentFault
from upheaval.runtimes.docker.engine import DEFAULT_HOST, connect, context_problem

ELSEWHERE = "tcp://192.0.2.1:2376"


@pytest.fixture
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The context `elsewhere` and the context `here`, which is the default engine."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    for name, host in (("elsewhere", ELSEWHERE), ("here", DEFAULT_HOST)):
        folder = tmp_path / "contexts" / "meta" / sha256(name.encode()).hexdigest()
        folder.mkdir(parents=True)
        (folder / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}}))


@pytest.mark.usefixtures("contexts")
@pytest.mark.parametrize(("name", "host"), [("", ""), ("default", ""), ("here", ""), ("elsewhere", ELSEWHERE)])
def test_a_context_of_the_engine_that_is_used_is_fine(monkeypatch: pytest.MonkeyPatch, name: str, host: str) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", name)
    if host:
        monkeypatch.setenv("DOCKER_HOST", host)
    assert context_problem() is None


@pytest.mark.usefixtures("contexts")
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("nowhere", "DOCKER_CONTEXT=nowhere: no such context: unset the variable"),
        ("elsewhere", f"is not followed: unset it, and set DOCKER_HOST={ELSEWHERE} instead"),
    ],
)
def test_another_context_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch, name: str, line: str) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", name)
    with pytest.raises(EnvironmentFault, match=line):
        connect()


def test_a_context_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "contexts" / "meta" / sha256(b"broken").hexdigest()
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text("[]")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("DOCKER_CONTEXT", "broken")
    with pytest.raises(EnvironmentFault, match=r"DOCKER_CONTEXT=broken: .*meta.json cannot be read"):
        connect()
