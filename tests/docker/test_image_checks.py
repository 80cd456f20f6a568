"""What `upheaval images check` finds, one wrong image each, and what is said when an image cannot be built."""

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.errors import ImageNotFound

from support.built_images import require, spoilt
from support.docker_runs import command, upheaval
from upheaval import images
from upheaval.cli.main import main
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.images import bases, cache, programs
from upheaval.images.catalogue import DebianBase, GoBase
from upheaval.runtimes.docker.engine import Client
from upheaval.waits import wait_until

NEVER_BUILT = "upheaval/never-built:1"
OTHER_PYTHON = r"""printf '#!/bin/sh\necho %s\n' "'{\"python\": [3, 10], \"uid\": 10001, \"missing\": []}'" """


@pytest.fixture(autouse=True)
def never_built(engine: Client) -> Iterator[None]:
    """A base that an earlier test let finish, or an earlier run, does not decide the next one."""
    remove_never_built(engine)
    yield
    remove_never_built(engine)


def remove_never_built(engine: Client) -> None:
    with contextlib.suppress(ImageNotFound):
        engine.images.remove(NEVER_BUILT)


@pytest.mark.parametrize(
    ("instructions", "problems"),
    [
        (
            [
                "USER 0:0",
                "HEALTHCHECK NONE",
                'LABEL upheaval.image="" upheaval.source=x',
                "RUN rm -r /opt/upheaval/upheaval_node",
            ],
            [
                "its processes would run as root",
                "it has no health check",
                "it lacks the label upheaval.image",
                "it was built from other sources than these: build it again",
                "it lacks the module upheaval_node",
            ],
        ),
        (["USER 0", "RUN rm /usr/bin/python3", "USER 10001"], ["its Python does not run"]),
        (
            ["USER 0", f"RUN {OTHER_PYTHON} > /usr/local/bin/python3 && chmod +x /usr/local/bin/python3", "USER 10001"],
            ["it has Python 3.10, not 3.11"],
        ),
    ],
    ids=["metadata and module", "no python", "other python"],
)
def test_a_wrong_node_image_is_found(
    engine: Client, node_image: str, instructions: list[str], problems: list[str]
) -> None:
    with spoilt(engine, node_image, *instructions) as tag:
        found = images.problems_of(engine, images.NODE, tag)
    assert [problem for problem in problems if not any(problem in line for line in found)] == [], found
    assert all(line.startswith(f"{tag}: ") for line in found)


def test_an_image_that_is_something_else_is_found(engine: Client, node_image: str) -> None:
    found = "\n".join(images.problems_of(engine, images.TOXIPROXY, node_image))
    assert "`/toxiproxy -version` fails in it" in found
    found = "\n".join(images.problems_of(engine, images.NODE, images.OFFLINE_BASE))
    assert "it names no volume /var/lib/upheaval" in found


def test_a_volume_of_another_user_is_found(engine: Client, node_image: str) -> None:
    with spoilt(engine, images.OFFLINE_BASE, "VOLUME /var/lib/upheaval", "USER 10001") as wrong:
        found = images.problems_of(engine, images.NODE, wrong)
    assert f"{wrong}: its processes may not write to its volume /var/lib/upheaval" in found


def test_prometheus_can_write_though_its_base_has_a_volume_of_another_user(engine: Client) -> None:
    """As the official one. The engine's builder drops what it would change in such a volume."""
    require(engine, images.PROMETHEUS)
    debian = images.PROMETHEUS.offline_base
    assert debian is not None
    of_another = "RUN mkdir -p /prometheus && chown 65534:65534 /prometheus"
    with spoilt(engine, debian.tag, of_another, "VOLUME /prometheus") as base:
        try:
            images.build(engine, images.PROMETHEUS, base=base, offline=False, say=print)
            assert images.problems_of(engine, images.PROMETHEUS) == []
        finally:
            # What is built on it counts as built on its own base, too.
            engine.images.remove(images.PROMETHEUS.tag, force=True)
            require(engine, images.PROMETHEUS)


def test_packet_filters_without_their_rights_or_programs_are_found(engine: Client) -> None:
    tag = require(engine, images.NETFAULT)
    with spoilt(engine, tag, "RUN rm /usr/sbin/iptables-legacy", "USER 10001") as wrong:
        found = "\n".join(images.problems_of(engine, images.NETFAULT, wrong))
    assert "its processes would not run as root" in found
    assert "`iptables-legacy --version` fails in it" in found


def test_an_image_that_is_too_large_is_found(engine: Client, node_image: str) -> None:
    size = images.image_state(engine, images.NODE).size_mb
    found = images.problems_of(engine, dataclasses.replace(images.NODE, limit_mb=1), node_image)
    assert f"{node_image}: {size:.0f} MB, the limit is 1 MB" in found


def test_a_missing_image_is_found(engine: Client) -> None:
    found = images.problems_of(engine, images.NODE, NEVER_BUILT)
    assert found == [f"{NEVER_BUILT} is missing: build it with `upheaval images build node`"]


def test_a_base_that_is_not_there_is_one_line(engine: Client) -> None:
    with pytest.raises(EnvironmentFault, match=r"upheaval/node.* failed|building upheaval/node") as raised:
        images.build(engine, images.NODE, base="upheaval/no-such-base:1", offline=False, say=print)
    assert "\n" not in str(raised.value)


def test_a_base_without_python_is_one_line(engine: Client) -> None:
    require(engine, images.TOXIPROXY)
    before = images.image_state(engine, images.NODE)
    with pytest.raises(EnvironmentFault, match=r"building upheaval/node.* failed: .*(sh|exec)") as raised:
        images.build(engine, images.NODE, base=images.TOXIPROXY.tag, offline=False, say=print)
    assert "\n" not in str(raised.value)
    assert images.image_state(engine, images.NODE) == before


def test_a_base_with_an_old_python_is_one_line(engine: Client) -> None:
    old = "import sys; sys.version_info = (3, 10, 0)"
    with (
        spoilt(
            engine,
            images.OFFLINE_BASE,
            "ENV PYTHONPATH=/old",
            f"RUN mkdir /old && echo '{old}' > /old/sitecustomize.py",
        ) as base,
        pytest.raises(EnvironmentFault, match=r"the base needs Python 3\.11 or newer"),
    ):
        images.build(engine, images.NODE, base=base, offline=False, say=print)


def test_an_image_that_cannot_be_built_keeps_no_other_from_it(
    node_image: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Their Dockerfiles are not there.
    broken = [dataclasses.replace(images.TOXIPROXY, name=name) for name in ("no-such", "nor-this")]
    monkeypatch.setattr(images, "IMAGES", (*broken, images.NODE))
    assert main(["images", "build"]) == 2
    printed = capsys.readouterr()
    assert printed.out.startswith(f"{node_image}: ")
    lines = [line for line in printed.err.splitlines() if "Cannot locate specified Dockerfile" in line]
    assert [line.rpartition("images/")[2] for line in lines] == ["nor-this/Dockerfile", "no-such/Dockerfile"]


def test_wrong_usage_is_one_line() -> None:
    with pytest.raises(UsageError, match="unknown image 'nod': use node, toxiproxy"):
        images.image_named("nod")
    for arguments, line in (
        (("build", "nod"), "unknown image 'nod'"),
        (("build", "--base", "x"), "--base is the base of one image: name it"),
        (("check", "nod"), "unknown image 'nod'"),
    ):
        done = upheaval("images", *arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert line in done.stderr


@pytest.mark.parametrize("arguments", [("list",), ("build", "node"), ("check", "node")])
def test_without_an_engine(arguments: tuple[str, ...]) -> None:
    done = upheaval("images", *arguments, DOCKER_HOST="unix:///nonexistent/docker.sock")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "no Docker engine" in done.stderr


@pytest.mark.parametrize(
    ("base", "line"),
    [
        (DebianBase(NEVER_BUILT, ("python3",)), "--offline needs debootstrap: install"),
        (GoBase(NEVER_BUILT, "v1", (), ""), "--offline needs go to compile"),
    ],
    ids=["debootstrap", "go"],
)
def test_a_missing_program_is_named(
    engine: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: DebianBase | GoBase, line: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match=line):
        bases.require_base(engine, base, print)


def test_a_package_that_debian_lacks_is_one_line(
    engine: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bases, "DEBIAN_SUITE", "no-such-suite")
    with pytest.raises(EnvironmentFault, match=r"^debootstrap failed: .*no-such-suite") as raised:
        bases.require_base(engine, DebianBase(NEVER_BUILT, ("python3",)), print)
    assert "\n" not in str(raised.value)


def test_debootstrap_is_not_tried_without_root(tmp_path: Path) -> None:
    """In a user name space without a mapping, root is the user `nobody`."""
    script = (
        "from upheaval.images import bases, catalogue\n"
        f"bases._bootstrap(catalogue.DebianBase({NEVER_BUILT!r}, ('python3',)), None, print)"
    )
    program = shutil.which("setpriv")
    assert program is not None, "setpriv is part of util-linux"
    done = subprocess.run(
        [program, "--reuid=65534", "--regid=65534", "--clear-groups", command()[0], "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "EnvironmentFault: --offline needs root, because debootstrap does" in done.stderr


def test_a_full_disk_is_one_line(tmp_path: Path, node_image: str, engine: Client) -> None:
    """The context of a build goes to a file system of a megabyte, in a mount name space of its own."""
    before = images.image_state(engine, images.NODE)
    build = command("images", "build", "--base", require(engine, images.NETFAULT), "node")
    script = 'mount -t tmpfs -o size=1m tmpfs "$0" && TMPDIR="$0" "$@"; status=$?; ls -A "$0"; exit $status'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, str(tmp_path), *build],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"upheaval: building {node_image}: no space left on device")
    assert images.image_state(engine, images.NODE) == before


@pytest.mark.parametrize("begun", ["debootstrap", pytest.param("usr", marks=pytest.mark.nightly)])
def test_an_interrupted_base_leaves_nothing(begun: str, tmp_path: Path, engine: Client) -> None:
    """debootstrap has processes and mounts of its own; the signal goes to the command only.

    It is sent when packages are looked for, or when they are unpacked.
    """
    script = (
        "from upheaval.images import bases, catalogue\n"
        "from upheaval.runtimes.docker.engine import connected\n"
        "with connected() as client:\n"
        f"    bases.require_base(client, catalogue.DebianBase({NEVER_BUILT!r}, ('python3',)), print)"
    )
    with subprocess.Popen(
        [command()[0], "-c", script],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as build:
        wait_until(
            lambda: any(tmp_path.glob(f"*/root/{begun}")), timeout_s=240, describe=lambda: "debootstrap has not begun"
        )
        build.send_signal(signal.SIGINT)
        assert build.wait(timeout=240) != 0
    assert engine.images.list(name=NEVER_BUILT) == []
    assert list(tmp_path.iterdir()) == []
    assert str(tmp_path) not in Path("/proc/mounts").read_text(encoding="utf-8")
    assert processes_that_name(str(tmp_path)) == []


def processes_that_name(text: str) -> list[str]:
    """Command lines that hold the text."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found += [line] if text in line else []
    return found


def test_builds_of_one_image_wait_for_each_other(tmp_path: Path, node_image: str) -> None:
    said: list[str] = []
    with cache.alone(node_image, said.append):
        other = subprocess.Popen(command("images", "build", "node"), stderr=subprocess.PIPE, text=True)
        assert other.stderr is not None
        line = other.stderr.readline()
        assert line == f"waiting for another process that makes {node_image}\n"
        assert other.poll() is None
    assert other.communicate(timeout=240)[1] == f"{node_image} is built from these sources\n"
    assert (other.returncode, said) == (0, [])


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("a\nERROR: no such package\nhint: look it up\n", "ERROR: no such package"),
        (
            "W: slow\nE: cannot write: No space left on device\nE: giving up\n",
            "E: cannot write: No space left on device",
        ),
        ("a\n\nlast\n\n", "last"),
        ("", "it printed nothing"),
    ],
)
def test_the_line_that_says_why(output: str, line: str) -> None:
    assert programs.reason_in(output) == line
