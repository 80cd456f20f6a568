"""The pytest plugin: fixtures `cluster`, `chaos` and `workload`, found by pytest through the entry point.

A project that has a fixture or an option of a short name keeps it: `upheaval_cluster` and `--upheaval-seed` are ours
in any case.

It is loaded into every test run of an environment that has upheaval installed, so it imports nothing but names until
a fixture is asked for. A failed test keeps its run folder, and the end of the report has a line that replays or judges
it.
"""

import os
import shlex
import sys
from argparse import ArgumentTypeError
from collections.abc import Generator, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from upheaval.runtime_names import DOCKER, PROCESS, RUNTIMES, SIMULATED

if TYPE_CHECKING:
    from upheaval.testing.chaos import Chaos
    from upheaval.testing.cluster import Cluster, Workload
    from upheaval.testing.item_run import ItemRun, Wanted

MARKER = "upheaval"
SEED_PROPERTY = "upheaval_seed"
SEED_FIXTURE = "upheaval_seed"
CLUSTER_FIXTURE = "upheaval_cluster"
FAILED_SEEDS = "upheaval/failed-seeds"
"""In pytest's cache: the simulated seeds that failed last time, by the test without its parameters."""
REMEMBERED_MAX = 20
_FROM_INI = ("service", "source", "image", "model", "schema", "client", "system", "launcher", "jvm")
_MARKER_OPTIONS = (
    *_FROM_INI,
    "members",
    "seed",
    "sync_level",
    "leader_disconnect_ms",
    "components",
    "links",
    "machines",
    "witnesses",
    "verify",
)
_PACKAGES = ("upheaval", "upheaval_node", "upheaval_chaos")


def _seed(text: str) -> int:
    from upheaval.campaign.seeds import parse_seed
    from upheaval.errors import UsageError

    try:
        return parse_seed(text)
    except UsageError as error:
        raise ArgumentTypeError(str(error)) from None


_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "runtime": {"choices": RUNTIMES, "default": None, "help": "where clusters run (default process)"},
    "members": {"type": int, "default": None, "help": "members of a cluster (default 3)"},
    "seed": {"type": _seed, "default": None, "help": "seed of workload and simulation (default 1)"},
    "seeds": {
        "metavar": "A..B",
        "default": None,
        "help": "each test once for each of these seeds, on the simulated runtime",
    },
    "label": {
        "action": "append",
        "metavar": "NAME=VALUE",
        "default": [],
        "help": "what is tested, such as commit=4f2a91c, for the run folders (default: CI's own variables)",
    },
    "keep-runs": {"action": "store_true", "default": False, "help": "keep the run folders of tests that passed, too"},
}
"""Each is `--upheaval-NAME`, and `--NAME` where no project or plugin has that."""
_FREE: Final = object()


_RUN = pytest.StashKey["ItemRun"]()
_SEEDS = pytest.StashKey[range]()
_NOT_UP = pytest.StashKey[BaseException]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the command line and of the ini file; `docs` has their use."""
    group = _group(parser)
    for name, keywords in _OPTIONS.items():
        group.addoption(f"--{MARKER}-{name}", **keywords)
    parser.addini("upheaval_service", "the service that clusters run: a shipped one or module:Class")
    parser.addini("upheaval_source", "the folder with that service's code, relative to the root of the tests")
    parser.addini("upheaval_client", "the client program in Java that requests go through, CLASSPATH:Class")
    parser.addini("upheaval_launcher", "the command that starts a member of Aeron, in that folder")
    parser.addini("upheaval_jvm", "options of Java for members of Aeron, such as -Xmx1g")
    parser.addini("upheaval_model", "the model of that service, module:Class, or a module with promises")
    parser.addini("upheaval_schema", "the SBE schema of its messages, a file relative to the root of the tests")
    parser.addini("upheaval_ignore", "patterns of what of that folder containers do not get", type="linelist")
    parser.addini("upheaval_system", "what the members of clusters are, NAME or NAME:VERSION (default upheaval)")
    parser.addini(
        "upheaval_verify",
        "always (default): a test that passed is judged, and fails where its run is invalid; valid: it fails unless "
        "its run is valid; asked: only when it asks",
        default="always",
    )
    parser.addini("upheaval_labels", "labels of all runs, NAME=VALUE", type="linelist")
    parser.addini("upheaval_image", "the image that brings the service to containers, instead of that folder")


def _group(parser: pytest.Parser) -> pytest.OptionGroup:
    return parser.getgroup("upheaval", "clusters of replicated state machines")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None]:
    """Adds the short names of the options: last, so that those of the project and of other plugins are known.

    Until then pytest takes the value after such a name for a path, and would look for no conftest in `testpaths`.
    """
    paths = early_config.known_args_namespace.file_or_dir
    for word, value in pairwise(args):
        name = word.removeprefix("--")
        is_unknown = name in _OPTIONS and early_config.getoption(f"--{name}", _FREE) is _FREE
        if is_unknown and value in paths and (not Path(value).exists() or _may_be_value(name, value)):
            paths.remove(value)
    yield
    group = _group(parser)
    for name, keywords in _OPTIONS.items():
        if early_config.getoption(f"--{name}", _FREE) is _FREE:
            long = f"--{MARKER}-{name}"
            destination = long.removeprefix("--").replace("-", "_")
            group.addoption(f"--{name}", dest=destination, **{**keywords, "help": f"short for {long}"})


def _may_be_value(name: str, text: str) -> bool:
    """Whether a text that is also a path may be the value of an option: one of its choices, or a number."""
    keywords = _OPTIONS[name]
    return text in keywords.get("choices", ()) or (keywords.get("type") in (int, _seed) and text.isdecimal())


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known, so that `--strict-markers` accepts it."""
    options = ", ".join(_MARKER_OPTIONS)
    config.addinivalue_line("markers", f"{MARKER}(**options): options of the test's cluster: {options}")
    if config.getoption("upheaval_seeds") is not None:
        config.stash[_SEEDS] = _parsed_seeds(config)
    _parsed_labels(config)
    config.pluginmanager.register(_FailedSeeds(config), "upheaval-failed-seeds")


def _parsed_seeds(config: pytest.Config) -> range:
    from upheaval.campaign.seeds import parse_seeds
    from upheaval.errors import UsageError

    if config.getoption("upheaval_seed") is not None:
        raise pytest.UsageError("--upheaval-seed and --upheaval-seeds: give one of them")
    if _runtime(config) != SIMULATED:
        raise pytest.UsageError("--upheaval-seeds is for the simulated runtime: elsewhere runs of one seed differ")
    try:
        return parse_seeds(config.getoption("upheaval_seeds"))
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error


def _runtime(config: pytest.Config) -> str:
    return config.getoption("upheaval_runtime") or (
        PROCESS if config.getoption("upheaval_seeds") is None else SIMULATED
    )


# --- seeds ---


class _FailedSeeds:
    """Remembers, where the results of all workers arrive, which seeds of which tests failed.

    A report has a seed only if that passed or failed.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._results: dict[str, dict[int, bool]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, seed in report.user_properties:
            if name == SEED_PROPERTY and isinstance(seed, int):
                results = self._results.setdefault(_test_of(report.nodeid), {})
                results[seed] = results.get(seed, False) or report.failed

    def pytest_sessionfinish(self) -> None:
        if not self._results or hasattr(self._config, "workerinput"):
            return
        known = _failed_seeds(self._config)
        for test, results in self._results.items():
            others = [seed for seed in known.pop(test, []) if seed not in results]
            failed = [seed for seed, has_failed in results.items() if has_failed]
            if failed or others:
                known[test] = [*failed, *others][:REMEMBERED_MAX]
        cache = getattr(self._config, "cache", None)
        if cache is not None:
            cache.set(FAILED_SEEDS, known)


def _failed_seeds(config: pytest.Config) -> dict[str, list[int]]:
    cache = getattr(config, "cache", None)
    seeds = None if cache is None else cache.get(FAILED_SEEDS, {})
    return seeds if isinstance(seeds, dict) else {}


def _test_of(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with a simulated cluster, once for each seed: those that failed last time come first."""
    config = metafunc.config
    if SEED_FIXTURE not in metafunc.fixturenames or _runtime(config) != SIMULATED:
        return
    usual: int | None = None
    wanted = config.stash.get(_SEEDS, None)
    failed = _failed_seeds(config).get(_test_of(metafunc.definition.nodeid), [])
    if wanted is None:
        if not failed or config.getoption("upheaval_seed") is not None:
            return
        markers = [mark.kwargs["seed"] for mark in metafunc.definition.iter_markers(MARKER) if "seed" in mark.kwargs]
        wanted = range(markers[0], markers[0] + 1) if markers else range(1, 2)
        # The test keeps its name, by which pytest knows what failed last; before pytest 8.4 no parameter can be hidden.
        usual = wanted[0] if hasattr(pytest, "HIDDEN_PARAM") else None
    seeds = [None if seed == usual else seed for seed in dict.fromkeys([*failed, *wanted])]
    ids = [pytest.HIDDEN_PARAM if seed is None else f"seed-{seed}" for seed in seeds]
    metafunc.parametrize(SEED_FIXTURE, seeds, indirect=True, ids=ids)


@pytest.fixture
def upheaval_seed(request: pytest.FixtureRequest) -> int | None:
    """The seed of the test's cluster that the command line chose for it, if it did."""
    seed: int | None = getattr(request, "param", None)
    return seed


# --- fixtures ---


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: "pytest.FixtureDef[Any]", request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Keeps why a cluster did not come up. That fails the test, expected to fail or not."""
    try:
        return (yield)
    except BaseException as error:
        if fixturedef.argname == CLUSTER_FIXTURE:
            request.node.stash[_NOT_UP] = error
        raise


@pytest.fixture
def upheaval_cluster(request: pytest.FixtureRequest, upheaval_seed: int | None) -> Iterator["Cluster"]:
    """A cluster of its own for the test, up and with a leader; it is gone when the test is over."""
    from upheaval.errors import UsageError
    from upheaval.records import MadeByTest, write_made_by_test
    from upheaval.records.labels import write_labels
    from upheaval.testing.cluster import Cluster
    from upheaval.testing.item_run import ItemRun
    from upheaval.testing.own_promises import require_judged_promises
    from upheaval.testing.run_folders import new_folder, remove_folder
    from upheaval.testing.signals import signals_interrupt

    item: pytest.Item = request.node
    options = _cluster_options(item)
    if upheaval_seed is not None:
        options["seed"] = upheaval_seed
    elif _SEEDS in item.config.stash:
        late = f"{item.name} gets its cluster too late to run once per seed"
        raise UsageError(f"--upheaval-seeds: {late}: name the fixture {SEED_FIXTURE} among its arguments")
    wanted: Wanted = options.pop("verify")
    labels = _labels(item)
    folder = new_folder(item.config.invocation_params.dir / "runs", item.name)
    command = _replay_command(item, options, upheaval_seed)
    seed = options.get("seed", 1) if options["runtime"] == SIMULATED else None
    item.stash[_RUN] = run = ItemRun(folder, seed, shlex.join(command))
    with signals_interrupt():
        try:
            made = Cluster(folder=folder, **options)
            try:
                require_judged_promises(item, options)
            except UsageError:
                made.down()
                raise
        except BaseException:
            # No member was started, so the folder shows nothing.
            del item.stash[_RUN]
            remove_folder(folder)
            raise
        try:
            write_made_by_test(folder, MadeByTest(str(item.config.invocation_params.dir), command))
            write_labels(folder, labels)
            made.up()
            yield made
            run.is_ending = True
            run.judge(made, wanted)
        finally:
            made.down()
    run.require_load(made, wanted)
    run.is_ending = False
    if not run.will_be_reported:
        _settle(item, run)


def _labels(item: pytest.Item) -> dict[str, str]:
    """What is tested: by the ini file, the command line and CI's variables; and by which test, without its seed."""
    from upheaval.records.labels import TEST, labels_of

    return labels_of([*_parsed_labels(item.config), (TEST, _test_of(item.nodeid))], os.environ)


def _parsed_labels(config: pytest.Config) -> list[tuple[str, str]]:
    words = [*config.getini("upheaval_labels"), *config.getoption("upheaval_label")]
    if not words:
        return []
    from upheaval.errors import UsageError
    from upheaval.records.labels import parse_label

    try:
        return [parse_label(word) for word in words]
    except UsageError as error:
        raise pytest.UsageError(f"--upheaval-label or upheaval_labels: {error}") from None


def _settle(item: pytest.Item, run: "ItemRun") -> None:
    """When all of a test is over its run folder goes, or says why the test failed."""
    del item.stash[_RUN]
    run.settle(item.nodeid, keeps=item.config.getoption("upheaval_keep_runs"))


@pytest.fixture
def upheaval_chaos(upheaval_cluster: "Cluster") -> "Chaos":
    """Faults of members and links of the test's cluster, each proved and recorded."""
    return upheaval_cluster.chaos


@pytest.fixture
def upheaval_workload(upheaval_cluster: "Cluster") -> "Workload":
    """Seeded load on the shipped services of the test's cluster."""
    return upheaval_cluster.workload


@pytest.fixture
def cluster(upheaval_cluster: "Cluster") -> "Cluster":
    """The same as `upheaval_cluster`, unless the project has a fixture of this name."""
    return upheaval_cluster


@pytest.fixture
def chaos(upheaval_chaos: "Chaos") -> "Chaos":
    """The same as `upheaval_chaos`, unless the project has a fixture of this name."""
    return upheaval_chaos


@pytest.fixture
def workload(upheaval_workload: "Workload") -> "Workload":
    """The same as `upheaval_workload`, unless the project has a fixture of this name."""
    return upheaval_workload


def _cluster_options(item: pytest.Item) -> dict[str, Any]:
    """Command line before marker before configuration file before the defaults of `Cluster`."""
    config = item.config
    options: dict[str, Any] = {}
    for name in _FROM_INI:
        if config.getini(f"{MARKER}_{name}"):
            options[name] = config.getini(f"{MARKER}_{name}")
    for mark in reversed(list(item.iter_markers(MARKER))):
        unknown = sorted(set(mark.kwargs) - set(_MARKER_OPTIONS))
        if unknown or mark.args:
            wrong = ", ".join(unknown) or "positional values"
            from upheaval.errors import UsageError
            from upheaval_node.suggestions import did_you_mean

            hint = did_you_mean(wrong, _MARKER_OPTIONS)
            raise UsageError(f"marker {MARKER}: unknown {wrong}: use {', '.join(_MARKER_OPTIONS)}{hint}")
        options.update(mark.kwargs)
    for name in ("members", "seed"):
        if config.getoption(f"{MARKER}_{name}") is not None:
            options[name] = config.getoption(f"{MARKER}_{name}")
    if config.getini(f"{MARKER}_ignore"):
        options["ignored"] = config.getini(f"{MARKER}_ignore")
    options.setdefault("witnesses", True)
    options["verify"] = _wanted_verdict(config, options.get("verify"))
    options["runtime"] = _runtime(config)
    if options["runtime"] != DOCKER:
        options.pop("image", None)
    if "image" in options:
        # It brings the service.
        options.pop("source", None)
    elif "source" in options:
        options["source"] = config.rootpath / options["source"]
    elif ":" in options.get("service", "") or options.get("launcher"):
        options["source"] = config.rootpath
    if options.get("schema"):
        options["schema"] = config.rootpath / options["schema"]
    # Proxies cost something: only a test that may want to break links gets them.
    options.setdefault("links", _has_chaos(item))
    return options


def _has_chaos(item: pytest.Item) -> bool:
    return "upheaval_chaos" in getattr(item, "fixturenames", ())


def _wanted_verdict(config: pytest.Config, marked: object) -> "Wanted":
    from upheaval.testing.item_run import wanted_verdict

    of_file = wanted_verdict(config.getini(f"{MARKER}_verify"), f"{MARKER}_verify")
    return of_file if marked is None else wanted_verdict(marked, f"marker {MARKER}: verify")


def _replay_command(item: pytest.Item, options: dict[str, Any], chosen_seed: int | None) -> tuple[str, ...]:
    """The same test with the same seed; on the simulated runtime that is the same execution."""
    path, separator, rest = item.nodeid.partition("::")
    where = os.path.relpath(item.config.rootpath / path, item.config.invocation_params.dir)
    members, seed = str(options.get("members", 3)), str(options.get("seed", 1))
    # A test that has a seed among its parameters is only found by these.
    seeds = "seed" if chosen_seed is None else "seeds"
    chosen = ["--upheaval-runtime", options["runtime"], "--upheaval-members", members, f"--upheaval-{seeds}", seed]
    return ("pytest", f"{where}{separator}{rest}", *chosen)


# --- reports ---


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shortens the report of a failure of ours, and keeps where the run folder is and how to replay it."""
    is_ours = call.excinfo is not None and _is_ours(call.excinfo.value)
    if is_ours and call.excinfo is not None and not item.config.getoption("fulltrace"):
        _shorten(call.excinfo)
    report = yield
    run = item.stash.get(_RUN, None)
    is_of_fixture = report.when == "setup" or (run is not None and run.is_ending)
    if is_ours and call.excinfo is not None and is_of_fixture and not item.config.getoption("fulltrace"):
        report.longrepr = f"{MARKER}: {call.excinfo.value}"
    if call.excinfo is not None and call.excinfo.value is item.stash.get(_NOT_UP, None):
        del item.stash[_NOT_UP]
        _fail_expected_or_not(report)
    if run is not None:
        _note(item, run, report, None if call.excinfo is None else call.excinfo.value)
    return report


def _fail_expected_or_not(report: pytest.TestReport) -> None:
    """pytest takes what an xfailed test raises in any phase as expected."""
    report.outcome = "failed"
    vars(report).pop("wasxfail", None)


def _note(item: pytest.Item, run: "ItemRun", report: pytest.TestReport, error: BaseException | None) -> None:
    from upheaval.testing.summary import (
        FAULTS_PROPERTY,
        NOT_JUDGED,
        REPLAY_PROPERTY,
        RUN_PROPERTY,
        VERDICT_PROPERTY,
    )

    is_last = report.when == "teardown"
    if is_last and run.is_ending:
        _fail_expected_or_not(report)
    had_failed = run.has_failed
    ends_session = isinstance(error, KeyboardInterrupt | pytest.exit.Exception)
    # Only a subtest reports that it ends. With --pdb, Ctrl-C fails the test and the session goes on.
    if not ends_session or (isinstance(error, KeyboardInterrupt) and item.config.getoption("usepdb", False)):
        run.note(report, error)
    if run.has_failed and not had_failed:
        # The properties of the test go into JUnit files, those of this report to the end of the output.
        properties = [(RUN_PROPERTY, str(run.folder)), (REPLAY_PROPERTY, run.replay)]
        item.user_properties += properties
        report.user_properties += properties
    if run.seed is not None and (report.failed or (is_last and run.has_passed)):
        report.user_properties.append((SEED_PROPERTY, run.seed))
    if is_last:
        report.user_properties.append((VERDICT_PROPERTY, run.verdict or NOT_JUDGED))
        if run.has_passed and _has_chaos(item):
            report.user_properties.append((FAULTS_PROPERTY, run.faults))
        try:
            _settle(item, run)
        except Exception as reason:  # noqa: BLE001 - a full disk, say, fails this test and does not end the session
            report.outcome, report.longrepr = "failed", f"{report.longreprtext}\n{MARKER}: {reason}".strip()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """After an interrupt fixtures end without this, and without a report."""
    run = item.stash.get(_RUN, None)
    if run is not None:
        run.will_be_reported = True


def _is_ours(error: BaseException) -> bool:
    """Whether it is an error of the harness or of the client, whose message says everything."""
    for module, name in (("upheaval.errors", "HarnessError"), ("upheaval_node.errors", "NodeError")):
        # An error of a module that was never imported was never raised.
        if module in sys.modules and isinstance(error, getattr(sys.modules[module], name)):
            return True
    return False


def _shorten(excinfo: "pytest.ExceptionInfo[BaseException]") -> None:
    """Leave the frames of the test, and the one line that the error is."""
    for entry in excinfo.traceback:
        names = entry.frame.f_globals
        if str(names.get("__name__")).partition(".")[0] in _PACKAGES:
            # pytest hides frames with this global name; the function limits that to errors like this one.
            names["__tracebackhide__"] = _hides
    excinfo.value.__cause__ = None
    excinfo.value.__suppress_context__ = True


def _hides(excinfo: "pytest.ExceptionInfo[BaseException]") -> bool:
    return _is_ours(excinfo.value)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many passed tests have no valid run, or had no fault; for each failed test of ours, how it is replayed and
    judged, and the last log lines of its members.
    """
    reports = (report for reports in terminalreporter.stats.values() for report in reports)
    names = (name for report in reports for name, _ in getattr(report, "user_properties", ()))
    if not any(str(name).startswith(f"{MARKER}_") for name in names):
        return
    from upheaval.testing.summary import summary_lines

    lines = list(summary_lines(terminalreporter.stats, is_verbose=terminalreporter.verbosity > 0))
    if lines:
        terminalreporter.section("upheaval runs")
        for line in lines:
            terminalreporter.write_line(line)
