"""What is refused of a launcher and of Java's options without Java."""

import shlex
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from upheaval.errors import UsageError
from upheaval.runtime_names import DOCKER, PROCESS, SIMULATED
from upheaval.runtimes.cluster_file import save, start_of
from upheaval.scenario import load_scenario
from upheaval.system import ClusterSpec, check_system
from upheaval.system.aeron_launcher import (
    TOOL_OPTIONS,
    _quoted,
    launch_inside,
    launcher_in_container,
    require_launcher,
    require_program,
)

AERON = ClusterSpec(system="aeron", launcher="java Main")


@pytest.mark.parametrize(
    ("spec", "runtime", "says"),
    [
        (
            ClusterSpec(jvm="-Xmx1g"),
            PROCESS,
            "jvm '-Xmx1g': members of upheaval do not run in Java: use --system aeron",
        ),
        (ClusterSpec(launcher="x"), SIMULATED, "launcher 'x': use --system aeron and --runtime process or docker"),
        (ClusterSpec(launcher="x"), PROCESS, "launcher 'x': use --system aeron and --runtime process or docker"),
        (ClusterSpec(launcher="x"), DOCKER, "launcher 'x': use --system aeron and --runtime process or docker"),
    ],
)
def test_it_is_refused_where_it_has_no_meaning(spec: ClusterSpec, runtime: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_system(spec, runtime)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (replace(AERON, jvm="Xmx1g"), "jvm 'Xmx1g': expected options of Java such as -Xmx512m, got Xmx1g"),
        (replace(AERON, jvm="'"), 'jvm "\'": No closing quotation'),
        (replace(AERON, components="split"), "launcher: components split: a launcher starts a whole member"),
        (replace(AERON, app_version=1 << 16), "launcher: app-version: a launcher sets it in its contexts"),
        (replace(AERON, launcher=" "), "launcher: expected a command, such as 'java -cp {aeron}:"),
        (replace(AERON, launcher="a 'b"), 'launcher "a \'b": No closing quotation'),
    ],
)
def test_what_could_not_start_a_member_is_refused(spec: ClusterSpec, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        require_launcher(spec)


@pytest.mark.parametrize(
    ("launcher", "image", "is_refused"),
    [
        ("", "", True),
        ("java -cp a.jar Main", "", True),
        ("", "mine:1", False),
        ("{jdk}/bin/java -cp a.jar Main", "", False),
        ("./run.sh", "", False),
    ],
)
def test_options_are_tried_by_the_java_that_gets_them(
    launcher: str, image: str, is_refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, status in (("bin", 1), ("jdk/bin", 0)):
        java = tmp_path / folder / "java"
        java.parent.mkdir(parents=True)
        java.write_text(f"#!/bin/sh\necho Unrecognized VM option; exit {status}\n")
        java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    spec = replace(AERON, launcher=launcher.format(jdk=tmp_path / "jdk"), jvm="-XX:+ZGenerational", image=image)
    if is_refused:
        with pytest.raises(UsageError, match=r"jvm '-XX:.ZGenerational': Unrecognized VM option"):
            require_launcher(spec)
    else:
        require_launcher(spec)


def test_a_program_that_is_missing_is_refused_here_and_in_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = replace(AERON, launcher="no-such-program -x", source=str(tmp_path))
    with pytest.raises(UsageError, match=f"on system aeron:1: no program no-such-program in {tmp_path}"):
        require_program(spec, "aeron:1")
    for name, value in launcher_in_container(spec, PurePosixPath(tmp_path)).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=f"no program no-such-program in the image .{tmp_path}/source"):
        launch_inside(tmp_path / "member.properties")


def test_a_container_starts_the_launcher_in_the_copied_code_or_where_the_image_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = replace(AERON, launcher="./run.sh -cp {aeron}", source="code")
    copied, program = tmp_path / "source", tmp_path / "source" / "run.sh"
    copied.mkdir()
    program.write_text("exec java")
    program.chmod(0o755)
    monkeypatch.setenv(TOOL_OPTIONS, "-Xmx1g")
    for name, value in launcher_in_container(spec, PurePosixPath(tmp_path)).items():
        monkeypatch.setenv(name, value)
    launch = launch_inside(tmp_path / "member.properties")
    assert launch is not None
    assert (list(launch.words), launch.folder) == (["./run.sh", "-cp", "/opt/aeron/aeron-all.jar"], str(copied))
    agent = f"-javaagent:/opt/aeron/agent.jar={tmp_path / 'member.properties'}"
    assert launch.environment[TOOL_OPTIONS] == f"-Xmx1g {agent}"
    of_image = launcher_in_container(replace(spec, source=""), PurePosixPath(tmp_path))
    assert of_image == {"UPHEAVAL_LAUNCHER": spec.launcher}


def test_a_program_in_the_working_directory_of_an_image_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "run.sh"
    program.write_text("exec java")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    spec = replace(AERON, launcher="./run.sh", source="")
    for name, value in launcher_in_container(spec, PurePosixPath("/member")).items():
        monkeypatch.setenv(name, value)
    launch = launch_inside(tmp_path / "member.properties")
    assert launch is not None
    assert (list(launch.words), launch.folder) == (["./run.sh"], None)


def test_an_image_that_brings_the_launcher_gets_no_copy_of_a_folder() -> None:
    assert replace(AERON, image="mine:1").made("7f").source == ""


@pytest.mark.parametrize("option", ["-Da=b", "-Da=two words", '-Da="b"', "-Da='b'", '-Da="it\'s" "so"', "-Da="])
def test_an_option_survives_the_variable_of_java(option: str) -> None:
    # Java takes quotes as a shell does, but for backslashes and variables, which these options have not.
    assert shlex.split(_quoted(option)) == [option]


def test_a_replay_starts_a_launcher_in_the_folder_of_the_run(tmp_path: Path) -> None:
    spec = replace(AERON, jvm="-Xmx1g", source="code").made("7f")
    save(spec, PROCESS, tmp_path)
    scenario = load_scenario("leader-killed").launched(*start_of(tmp_path))
    assert scenario.cluster.made("8a").source == str(Path("code").absolute())
    assert (scenario.cluster.launcher, scenario.cluster.jvm) == ("java Main", "-Xmx1g")
