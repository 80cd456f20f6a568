"""Run the checks and every suite that this machine can run, several side by side, and say what could not run and why.

`--require core` makes a suite without extras that cannot run a failure, `all` any suite.
"""

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from aeron_jar import SHA256, jar_path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Suite:
    """A pytest run of a folder, or a `command`.

    `needs` are programs that must be on the path, `modules` what must be importable, `files` what must be there. An
    `extra` suite has a verb of its own in the Makefile that installs what it needs.
    """

    name: str
    folder: str = ""
    needs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    extra: bool = False
    command: tuple[str, ...] = ()
    marks: str = ""
    """Which tests of the folder, as an expression of pytest."""
    is_patient: bool = False
    """Nothing in it depends on real time: it runs with a low priority on what the others leave of the processors."""

    def missing(self) -> list[str]:
        """What this machine lacks to run it."""
        programs = [program for program in self.needs if shutil.which(program) is None]
        modules = [module for module in self.modules if importlib.util.find_spec(module) is None]
        return programs + modules + [path.name for path in self.files if not path.exists()]


@dataclass(frozen=True)
class Outcome:
    suite: Suite
    status: int
    output: str
    seconds: float
    processor_seconds: float
    """Of pytest and what it started and waited for; containers are the engine's."""


SOURCES = ("node", "harness", "chaos", "pipeline")
SLOWEST = 15
"""Of all suites together."""
DURATION = re.compile(r"^([0-9.]+)s (?:call|setup|teardown) +(tests/.+)$", re.MULTILINE)
SUMMARY = re.compile(r"\d+ (passed|failed|error|skipped).* in [0-9.]+s")
"""How a line begins with which pytest ends; what it started may have a last word after it."""
DOCKER_NEEDS = ("dockerd", "debootstrap", "go", "setpriv", "openssl")
DOCKER_MODULES = ("docker", "testcontainers", "toxiproxy", "locust", "uvicorn")
LANES = 3
"""One more than the cores of a small machine: clusters of real members wait more than they compute.

A fourth one would have members stand still for seconds. Patient suites run beside the lanes instead.
"""
PATIENT_LANES = 2
"""As many as the cores of a small machine: while all other lanes wait, patient suites have all of it."""
LOW_PRIORITY = ("nice", "-n", "10")
# Those that take longest come first, so that none of them is left to run by itself; containers, Spark and members wait.
# Patient ones have virtual time alone.
SUITES = (
    Suite("docker", "tests/docker", DOCKER_NEEDS, DOCKER_MODULES, extra=True),
    Suite("check", needs=("make",), command=("make", "check")),
    Suite(
        "pipeline",
        "tests/pipeline",
        ("java", "chromium"),
        ("pyspark", "grpc_status", "zstandard", "deltalake", "duckdb", "sqlglot", "moto"),
        extra=True,
    ),
    Suite("integration", "tests/integration", ("strace", "openssl")),
    Suite("unit", "tests/unit", ("openssl",)),
    Suite("aeron", "tests/aeron", ("java", "javac"), files=tuple(map(jar_path, SHA256)), extra=True),
    Suite("plugin", "tests/plugin", marks="heavy"),
    Suite("load", "tests/load", modules=("locust",), extra=True),
    Suite("live-scenarios", "tests/scenarios", marks="heavy"),
    Suite("ui", "tests/ui", ("chromium",), ("starlette", "uvicorn", "locust", "axe_playwright_python"), extra=True),
    Suite("docs", "tests/docs"),
    Suite("package", "tests/package"),
    Suite("scenarios", "tests/scenarios", marks="not heavy", is_patient=True),
    Suite("services", "tests/plugin", marks="not heavy", is_patient=True),
    Suite("simulation", "tests/simulation", is_patient=True),
    Suite("system", "tests/system", is_patient=True),
    Suite("architecture", "tests/architecture", is_patient=True),
)


def environment() -> dict[str, str]:
    """That of this process, in which Python may cache bytecode, and Maven compiles no code of its own for long runs.

    Suites start thousands of interpreters, and without the cache each compiles a member's modules anew. Images of
    containers often have it switched off.
    """
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {"MAVEN_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", **ours}


def compile_sources() -> None:
    """Cache the bytecode of the product before any suite runs.

    Suites that begin together would each compile all of it. And two replays of a service have their objects at the same
    addresses only where none of them has a module to compile.

    What does not compile is left to the suites, which show it with its place.
    """
    folders = [str(ROOT / name) for name in SOURCES]
    subprocess.run([sys.executable, "-m", "compileall", "-q", *folders], check=False)


def command_of(suite: Suite, *, nightly: bool) -> list[str]:
    marks = " and ".join(filter(None, ("" if nightly else "not nightly", suite.marks)))
    options = ["-q", "-p", "no:cacheprovider", "-m", marks, f"--durations={SLOWEST}"]
    command = suite.command or (sys.executable, "-m", "pytest", *options, suite.folder)
    return [*(LOW_PRIORITY if suite.is_patient else ()), *command]


def run_suite(suite: Suite, *, nightly: bool) -> Outcome:
    begin = time.monotonic()
    begun = subprocess.Popen(
        command_of(suite, nightly=nightly),
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert begun.stdout is not None
    output = begun.stdout.read()
    _, status, usage = os.wait4(begun.pid, 0)
    begun.returncode = os.waitstatus_to_exitcode(status)
    outcome = Outcome(suite, begun.returncode, output, time.monotonic() - begin, usage.ru_utime + usage.ru_stime)
    verdict = "ok" if outcome.status == 0 else f"FAILED ({outcome.status})"
    print(
        f"{suite.name}: {verdict} in {outcome.seconds:.0f} s, {outcome.processor_seconds:.0f} s of a processor",
        flush=True,
    )
    if outcome.status:
        print(outcome.output, flush=True)
    return outcome


def run_all(suites: Sequence[Suite], run: Callable[[Suite], Outcome]) -> list[Outcome]:
    """Run patient suites in lanes beside those of the others. A lane without work takes a patient one."""
    patient = deque(suite for suite in suites if suite.is_patient)
    others = deque(suite for suite in suites if not suite.is_patient)
    outcomes: list[Outcome] = []

    def lane(*queues: deque[Suite]) -> None:
        for queue in queues:
            while True:
                try:
                    suite = queue.popleft()
                except IndexError:
                    break
                outcomes.append(run(suite))

    with ThreadPoolExecutor(LANES + PATIENT_LANES) as pool:
        lanes = [pool.submit(lane, patient) for _ in range(PATIENT_LANES)]
        lanes += [pool.submit(lane, others, patient) for _ in range(LANES)]
    for ended in lanes:
        ended.result()
    return outcomes


def slowest(outcomes: list[Outcome]) -> list[str]:
    """Where the time of the whole goes, a line a test."""
    found = [(float(took), test) for o in outcomes for took, test in DURATION.findall(o.output)]
    return [f"{took:7.1f} s  {test}" for took, test in sorted(found, reverse=True)[:SLOWEST]]


def counts(outcomes: list[Outcome], word: str) -> int:
    summaries = [line for o in outcomes for line in o.output.splitlines() if SUMMARY.match(line)]
    return sum(int(n) for line in summaries for n in re.findall(rf"(\d+) {word}", line))


def add_to_job_summary(outcomes: list[Outcome]) -> None:
    """A table of the suites on the page of a CI job, where the machine is one of GitHub's."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    rows = [
        f"| {o.suite.name} | {'failed' if o.status else 'ok'} | {counts([o], 'passed')} | {o.seconds:.0f} |"
        for o in outcomes
    ]
    with Path(path).open("a", encoding="utf-8") as summary:
        summary.write("\n".join(["| suite | result | passed | seconds |", "|---|---|---|---|", *rows, ""]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted(s.name for s in SUITES), help="one suite")
    parser.add_argument(
        "--require",
        choices=("", "core", "all"),
        default="",
        help="what may not be left out: `core` is every suite without extras",
    )
    parser.add_argument("--nightly", action="store_true", help="the long forms too")
    arguments = parser.parse_args()
    chosen = [s for s in SUITES if arguments.only in (None, s.name)]
    runnable = [s for s in chosen if not s.missing()]
    left_out = [s for s in chosen if s.missing()]
    required = [s for s in left_out if arguments.require == "all" or (arguments.require == "core" and not s.extra)]
    print("running: " + ", ".join(s.name for s in runnable), flush=True)
    compile_sources()
    outcomes = run_all(runnable, partial(run_suite, nightly=arguments.nightly))
    for suite in left_out:
        print(f"not run: {suite.name}: needs {', '.join(suite.missing())}")
    print("\n".join(["slowest tests:", *slowest(outcomes)]))
    skipped = counts(outcomes, "skipped")
    failed = [o for o in outcomes if o.status] or required or (arguments.require and skipped)
    add_to_job_summary(outcomes)
    failures = counts(outcomes, "failed") + counts(outcomes, "error")
    print(f"{counts(outcomes, 'passed')} passed, {failures} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
