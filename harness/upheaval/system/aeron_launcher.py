"""Members of Aeron that a user's own program starts, here or in a container: its command line and its environment.

The program starts Aeron's components as in production. An agent in its JVM (`images/aeron`, `Agent.java`) sets the
member's system properties and exposes its internals; see docs/aeron.md.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from upheaval.aeron_jars import jar, without_notes
from upheaval.aeron_programs import AGENT, IN_IMAGE, JAR, agent_jar
from upheaval.errors import UsageError
from upheaval.records import TOGETHER
from upheaval.runtime_names import DOCKER, PROCESS
from upheaval.system.cluster_spec import ClusterSpec
from upheaval.system.under_test import SOURCE_FOLDER
from upheaval_chaos.programs import run_program

JAR_PLACE: Final = "{aeron}"
"""The placeholder in a launcher for the path of the jar of the system's version."""
TOOL_OPTIONS: Final = "JAVA_TOOL_OPTIONS"
_COMMAND_VARIABLE: Final = "UPHEAVAL_LAUNCHER"
_FOLDER_VARIABLE: Final = "UPHEAVAL_LAUNCHER_FOLDER"
"""Where a container's launcher runs: in the copied code, or where the image says."""
_JAVA_LIMIT_S: Final = 60.0
"""How many seconds Java may take to print its version."""


def launch_line(spec: ClusterSpec, version: str, configuration: Path) -> list[str]:
    """The command that runs the launcher for the member configured in that folder, in the folder of the user's code."""
    variable = f"{TOOL_OPTIONS}={_tool_options(agent_jar(version), configuration, java_options(spec))}"
    return ["env", f"--chdir={spec.source}", variable, *_words(spec.launcher, jar(version))]


def launcher_in_container(spec: ClusterSpec, folder: PurePosixPath) -> Mapping[str, str]:
    """The variables of a container whose member a launcher starts; `folder` is the member's. Empty without one."""
    if not spec.launcher:
        return {}
    place = {_FOLDER_VARIABLE: str(folder / SOURCE_FOLDER)} if spec.source else {}
    return {_COMMAND_VARIABLE: spec.launcher, **place}


@dataclass(frozen=True, slots=True)
class LaunchInside:
    """How the process of a container starts its launcher."""

    words: Sequence[str]
    folder: str | None
    """The working directory; None for that of the image."""
    environment: Mapping[str, str]


def launch_inside(configuration: Path) -> LaunchInside | None:
    """The launcher that the variables of this container name; None without one. Raises `UsageError` for a program that
    the image lacks.
    """
    text, folder = os.environ.get(_COMMAND_VARIABLE, ""), os.environ.get(_FOLDER_VARIABLE)
    if not text:
        return None
    words = _words(text, Path(IN_IMAGE, JAR))
    if _program_in(words, Path(folder or ".")) is None:
        raise UsageError(f"launcher {text!r}: no program {words[0]} in the image ({Path(folder or '.').absolute()})")
    options = _tool_options(Path(IN_IMAGE, AGENT), configuration, ())
    return LaunchInside(words, folder, {**os.environ, TOOL_OPTIONS: options})


def unstarted(who: str, what: str, output: str) -> str:
    """The message for a launcher without a member: `what` it did, and the last line that it printed."""
    return f"{who} {what}: its launcher started no component of Aeron: {output}"


def java_options(spec: ClusterSpec) -> list[str]:
    """The options of every member's JVM. Raises `UsageError` for a text that no shell could parse."""
    return _split("jvm", spec.jvm)


def require_launcher(spec: ClusterSpec) -> None:
    """Raises `UsageError` for options that Java refuses, and for a launcher that is no command of a whole member."""
    options = java_options(spec)
    odd = next((word for word in options if not word.startswith("-")), None)
    if odd is not None:
        raise UsageError(f"jvm {spec.jvm!r}: expected options of Java such as -Xmx512m, got {odd}")
    java = _java_of(spec)
    if options and java is not None:
        _require_java_takes(java, spec.jvm, options)
    if not spec.launcher:
        return
    if spec.app_version:
        raise UsageError("launcher: app-version: a launcher sets it in its contexts: leave it out")
    if spec.components != TOGETHER:
        raise UsageError(f"launcher: components {spec.components}: a launcher starts a whole member")
    _words(spec.launcher)


def require_program(spec: ClusterSpec, system: str) -> None:
    """Raises `UsageError` if this machine lacks the program of the launcher."""
    if not spec.launcher:
        return
    words, folder = _words(spec.launcher), Path(spec.source or ".")
    if _program_in(words, folder) is None:
        where = f"in {folder.absolute()}"
        raise UsageError(f"launcher {spec.launcher!r} on system {system}: no program {words[0]} {where}")


def require_aeron(spec: ClusterSpec, runtime: str, *, is_aeron: bool) -> None:
    """Raises `UsageError` if members do not run Java, or no program starts them."""
    if spec.jvm and not is_aeron:
        raise UsageError(f"jvm {spec.jvm!r}: members of {spec.system} do not run in Java: use --system aeron")
    if spec.launcher and not (is_aeron and runtime in (PROCESS, DOCKER)):
        raise UsageError(f"launcher {spec.launcher!r}: use --system aeron and --runtime {PROCESS} or {DOCKER}")


def _words(launcher: str, aeron: Path | None = None) -> list[str]:
    """The words of the command, with the path of Aeron's jar where it is known."""
    words = _split("launcher", launcher)
    if not words:
        raise UsageError("launcher: expected a command, such as 'java -cp {aeron}:target/classes my.Main'")
    return words if aeron is None else [word.replace(JAR_PLACE, str(aeron)) for word in words]


def _program_in(words: Sequence[str], folder: Path) -> str | None:
    """The path of the program, which is in the folder if its name has a slash; None if it is missing."""
    return shutil.which(str((folder / words[0]).absolute()) if os.sep in words[0] else words[0])


def _tool_options(agent: Path, configuration: Path, options: Sequence[str]) -> str:
    """What Java reads of the environment: the caller's options, the agent, and more options."""
    ours = map(_quoted, [f"-javaagent:{agent}={configuration}", *options])
    return " ".join(filter(None, [os.environ.get(TOOL_OPTIONS, ""), *ours]))


def _split(name: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{name} {text!r}: {error}") from error


def _quoted(option: str) -> str:
    """The option quoted for the JVM's options variable, in which a quoted part ends at the next quote of its kind."""
    if not any(character.isspace() or character in "'\"" for character in option):
        return option
    return '"' + option.replace('"', '"\'"\'"') + '"'


def _java_of(spec: ClusterSpec) -> str | None:
    """The program that members get their options with; None if an image or the launcher brings one: members themselves
    refuse the options then.
    """
    if spec.image:
        return None
    words = _words(spec.launcher) if spec.launcher else ["java"]
    return _program_in(words, Path(spec.source or ".")) if Path(words[0]).name == "java" else None


def _require_java_takes(java: str, text: str, options: Sequence[str]) -> None:
    try:
        done = run_program([java, *options, "-version"], limit_s=_JAVA_LIMIT_S)
    except subprocess.TimeoutExpired:
        limit = f"within {_JAVA_LIMIT_S:g} s"
        raise UsageError(f"jvm {text!r}: java -version did not end {limit}: leave out what makes it wait") from None
    if done.returncode:
        lines = without_notes(done.stdout + done.stderr)
        raise UsageError(f"jvm {text!r}: {lines[0] if lines else 'java does not take it'}")
