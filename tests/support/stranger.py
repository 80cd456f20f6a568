"""A stranger's environment: a fresh one that holds the wheel of this tree and pytest, and nothing else of ours."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from types import MappingProxyType
from zipfile import ZipFile

from packaging.requirements import Requirement

from upheaval.system.process_table import processes_of
from upheaval.waits import wait_until

ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("node", "harness", "chaos", "pipeline")
_FOLDERS = (*_PACKAGES, "images", "compose", "requirements", "examples")
_SOURCES = (*_FOLDERS, "pyproject.toml", "setup.py", "README.md", "LICENSE")
_WANTED = ("pytest", "pytest-xdist")
FOR_CONTAINERS = ("docker", "testcontainers", "toxiproxy-python")
"""What the extra `docker` brings."""
EXAMPLES = ROOT / "examples"
BANK = EXAMPLES / "bank"
PATIENCE_S = 120.0
"""What a pytest with a cluster may take to begin, and to end, beside a machine that is busy."""
_EDIT = re.compile(r"in `(\S+)` replace `([^`]+)` by\s`([^`]+)`")
WAITING = """
import threading
from pathlib import Path

def test_waits(cluster):
    Path("is-up").touch()
    threading.Event().wait()
"""


def build_wheel(work: Path) -> Path:
    """The wheel, built from a copy of the sources: the tree itself must not change under other tests.

    What is in `work / "source"` already goes into it as well.
    """
    copy = work / "source"
    for name in _SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "target"))
        else:
            copy.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(work), str(copy)], check=True)
    (wheel,) = work.glob("upheaval-*.whl")
    return wheel


def make_environment(work: Path, extra: tuple[str, ...] = (), wheel: Path | None = None) -> Path:
    """Its Python. Offline: the wheel (default: that of this tree) is installed by pip; pytest, `extra` and what they
    need are linked from here.
    """
    wheel = wheel or build_wheel(work)
    with ZipFile(wheel) as archive:
        assert any(name.endswith("entry_points.txt") for name in archive.namelist())
    folder = work / "venv"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    packages = next(folder.glob("lib/python*/site-packages"))
    for name in _closure(_WANTED + _needs() + extra):
        _link(name, packages)
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*command, str(wheel)], check=True)
    return python


def _needs() -> tuple[str, ...]:
    """What the wheel needs without extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return tuple(Requirement(text).name for text in project["dependencies"])


def _closure(names: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    pending = list(names)
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.append(name)
        requirements = [Requirement(text) for text in distribution(name).requires or ()]
        pending += [r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]
    return found


def _link(name: str, packages: Path) -> None:
    files = distribution(name).files or []
    for top in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
        source = Path(str(distribution(name).locate_file(top)))
        (packages / top).symlink_to(source, target_is_directory=source.is_dir())


def environment() -> dict[str, str]:
    """Without anything that would let this tree shine through."""
    hidden = ("PYTHONPATH", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER", "PYTEST_PLUGINS")
    # Where bytecode is cached, a pytest does not rewrite the assertions of all modules of the wheel anew.
    return {name: value for name, value in os.environ.items() if name not in (*hidden, "PYTHONDONTWRITEBYTECODE")}


def upheaval_in(folder: Path, python: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """A command of that environment, in a folder."""
    command = [python.parent / "upheaval", *words]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )


def pytest_in(
    folder: Path,
    python: Path,
    *options: str,
    timeout_s: float = 120,
    variables: Mapping[str, str] = MappingProxyType({}),
    pass_fds: tuple[int, ...] = (),
    typed: str | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run the tests of a folder as its owner would; it inherits the descriptors `pass_fds`, and reads `typed`."""
    command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", *options]
    surroundings = {**environment(), **variables}
    return subprocess.run(
        command,
        cwd=folder,
        env=surroundings,
        input=typed,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        pass_fds=pass_fds,
    )


@contextmanager
def waiting_pytest(folder: Path, python: Path, *options: str) -> Iterator["tuple[subprocess.Popen[bytes], str]"]:
    """A pytest in the middle of a test with three members, and the id of their run."""
    folder.mkdir(exist_ok=True)
    (folder / "test_it.py").write_text(WAITING)
    command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", *options]
    # nohup has its children ignore SIGHUP, and pytest keeps to that: here it must end by the signal.
    inherited = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        begun = subprocess.Popen(
            command, cwd=folder, env=environment(), stdout=subprocess.DEVNULL, start_new_session=True
        )
    finally:
        signal.signal(signal.SIGHUP, inherited)
    with begun as started:
        try:
            wait_until(
                (folder / "is-up").exists,
                timeout_s=PATIENCE_S,
                describe=lambda: f"the test does not begin: pytest {started.poll()}, {sorted(folder.rglob('*'))}",
            )
            (run_id,) = run_ids(folder)
            yield started, run_id
        finally:
            started.kill()


def wait_until_ended(started: "subprocess.Popen[bytes]", run_id: str) -> int:
    """The exit status of a pytest that was ordered to end. With xdist it alone gives its workers ten seconds."""

    def seen() -> str:
        threads = sorted(path.read_text().strip() for path in Path(f"/proc/{started.pid}/task").glob("*/wchan"))
        return f"pytest does not end: it waits in {threads}, of its cluster run {processes_of(run_id)}"

    wait_until(lambda: started.poll() is not None, timeout_s=PATIENCE_S, describe=seen)
    return started.wait()


def copy_of_the_bank(folder: Path) -> Path:
    """The example, outside of this tree."""
    return copy_of("bank", folder)


def copy_of(example: str, folder: Path) -> Path:
    """One of the examples, outside of this tree."""
    return Path(shutil.copytree(EXAMPLES / example, folder, ignore=shutil.ignore_patterns("runs", "__pycache__")))


def edit_as_its_readme_says(folder: Path) -> None:
    """Make the one edit by which the tests of a repository of `upheaval init` fail."""
    edit = _EDIT.search((folder / "README.md").read_text(encoding="utf-8"))
    assert edit is not None
    service = folder / edit[1]
    text = service.read_text(encoding="utf-8")
    assert text.count(edit[2]) == 1
    service.write_text(text.replace(edit[2], edit[3]), encoding="utf-8")


def run_ids(folder: Path) -> list[str]:
    """Of the clusters that tests in this folder have made and that are not removed."""
    return [json.loads(path.read_text())["run_id"] for path in folder.glob("runs/*/cluster.json")]


def require_nothing_running(folder: Path) -> None:
    assert [process for run_id in run_ids(folder) for process in processes_of(run_id)] == []
