"""Members of Aeron that a user's own program starts: its command line and its environment.

The program starts Aeron's components as in production. An agent in its JVM (`images/aeron`, `Agent.java`) sets the
member's system properties and exposes its internals; see docs/aeron.md.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from upheaval.aeron_jars import jar
from upheaval.aeron_programs import agent_jar
from upheaval.errors import UsageError
from upheaval.records import TOGETHER
from upheaval.runtime_names import PROCESS
from upheaval.system.cluster_spec import ClusterSpec
from upheaval_chaos.programs import run_program

JAR_PLACE: Final = "{aeron}"
"""The placeholder in a launcher for the path of the jar of the system's version."""
TOOL_OPTIONS: Final = "JAVA_TOOL_OPTIONS"
_JAVA_LIMIT_S: Final = 60.0
"""How many seconds Java may take to print its version."""


def launch_line(spec: ClusterSpec, version: str, configuration: Path) -> list[str]:
    """The command that runs the launcher for the member configured in that folder, in the folder of the user's code."""
    agent = f"-javaagent:{agent_jar(version)}={configuration}"
    options = [os.environ.get(TOOL_OPTIONS, ""), *map(_quoted, [agent, *java_options(spec)])]
    variable = f"{TOOL_OPTIONS}={' '.join(filter(None, options))}"
    return ["env", f"--chdir={spec.source}", variable, *_words(spec, version)]


def java_options(spec: ClusterSpec) -> list[str]:
    """The options of every member's JVM. Raises `UsageError` for a text that no shell could parse."""
    return _split("jvm", spec.jvm)


def require_launcher(spec: ClusterSpec, system: str, version: str) -> None:
    """Raises `UsageError` for options that Java refuses, and for a launcher that could not start a member."""
    options = java_options(spec)
    odd = next((word for word in options if not word.startswith("-")), None)
    if odd is not None:
        raise UsageError(f"jvm {spec.jvm!r}: expected options of Java such as -Xmx512m, got {odd}")
    if options:
        _require_java_takes(spec.jvm, options)
    if not spec.launcher:
        return
    if spec.components != TOGETHER:
        raise UsageError(f"launcher: components {spec.components}: a launcher starts a whole member")
    program = _words(spec, version)[0]
    folder = Path(spec.source or ".")
    path = str(folder / program) if os.sep in program else program
    if shutil.which(path) is None:
        raise UsageError(f"launcher {spec.launcher!r} on system {system}: no program {program} in {folder.absolute()}")


def require_aeron(spec: ClusterSpec, runtime: str, *, is_aeron: bool) -> None:
    """Raises `UsageError` if members do not run Java, or are not started by a program on this machine."""
    if spec.jvm and not is_aeron:
        raise UsageError(f"jvm {spec.jvm!r}: members of {spec.system} are no Java: use --system aeron")
    if spec.launcher and not (is_aeron and runtime == PROCESS):
        raise UsageError(f"launcher {spec.launcher!r}: use --system aeron and --runtime {PROCESS}")


def _words(spec: ClusterSpec, version: str) -> list[str]:
    words = _split("launcher", spec.launcher)
    if not words:
        raise UsageError("launcher: expected a command, such as 'java -cp {aeron}:target/classes my.Main'")
    return [word.replace(JAR_PLACE, str(jar(version))) if JAR_PLACE in word else word for word in words]


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


def _require_java_takes(text: str, options: Sequence[str]) -> None:
    try:
        done = run_program(["java", *options, "-version"], limit_s=_JAVA_LIMIT_S)
    except subprocess.TimeoutExpired:
        limit = f"within {_JAVA_LIMIT_S:g} s"
        raise UsageError(f"jvm {text!r}: java -version did not end {limit}: leave out what makes it wait") from None
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line and not _is_note(line)]
        raise UsageError(f"jvm {text!r}: {lines[0] if lines else 'java does not take it'}")


def _is_note(line: str) -> bool:
    return line.startswith("Picked up ")
