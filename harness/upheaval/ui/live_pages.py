"""The page of a cluster that runs, the stream of events that it draws, and what its buttons ask for."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from upheaval.errors import EnvironmentFault, HarnessError, UsageError
from upheaval.load.on_cluster import LoadPlan, sessions_max
from upheaval.records import jsonfields, write_atomically
from upheaval.runtimes import cluster_file
from upheaval.runtimes.opening import open_cluster
from upheaval.scenario.by_hand import require_shipped, scenario_by_hand
from upheaval.scenario.statements import SUFFIX
from upheaval.ui.catalogue import CLUSTER, LINK, MEMBER, buttons
from upheaval.ui.clusters import ClusterPlan, plan_of, start_cluster
from upheaval.ui.fields import Fields, number, seconds, text, truth, whole
from upheaval.ui.live import LOOK_EVERY_S, LiveView
from upheaval.ui.programs import Programs
from upheaval.ui.responses import ascii_json
from upheaval.ui.runs import Runs
from upheaval_chaos.exit_status import CommandStatus

_RUN_TIMEOUT_S: Final = 600


class LivePages:
    """Of the clusters in a folder of runs; each is opened when it is looked at first."""

    def __init__(self, runs: Runs, *, is_read_only: bool, is_ending: Callable[[], bool]) -> None:
        self._runs = runs
        self.is_read_only = is_read_only
        self._is_ending = is_ending
        self._views: dict[str, LiveView] = {}
        self._starting: set[str] = set()
        """Names of clusters that get their view when they have started. Another one would hold a load and faults that
        nothing ends.
        """
        self._lock = threading.Lock()
        self._programs = Programs()

    def routes(self, render: Callable[..., Response]) -> list[Any]:
        """`render` makes a page from a template. Longer paths first: the name of a run may have a slash."""
        acts: Mapping[str, Callable[[LiveView, Fields], Fields]] = {
            "inject": _inject,
            "heal": _heal,
            "heal-all": _heal_all,
            "command": _command,
            "scenario": self._save,
            "load-start": _start_load,
            "load-rate": _set_rate,
            "load-stop": _stop_load,
            "end": self._end,
        }
        return [
            Route("/api/clusters", self._start, methods=["POST"]),
            *(Route(f"/api/live/{{name:path}}/{word}", self._act(act), methods=["POST"]) for word, act in acts.items()),
            Route("/api/live/{name:path}/state", lambda request: ascii_json(self._view(request).state())),
            Route("/api/live/{name:path}/log", lambda request: ascii_json(self._view(request).last_lines())),
            Route("/api/live/{name:path}/events", self._events),
            Route("/live/{name:path}", lambda request: self._page(request, render)),
        ]

    def end_programs(self) -> None:
        """End the commands that run, so that nothing waits for them."""
        self._programs.end()

    def close(self) -> None:
        """Heal what has an end, end the clusters that were started here, and give back the handles of the others."""
        self.end_programs()
        with ExitStack() as stack:
            for view in self._views.values():
                stack.callback(view.close)

    def _view(self, request: Request) -> LiveView:
        name = request.path_params["name"]
        path = self._runs.path(name)
        with self._lock:
            if name in self._starting:
                raise UsageError(f"{name} is starting: wait until it has a leader")
            if name not in self._views:
                if not cluster_file.has_cluster(path):
                    raise UsageError(f"{name} has no cluster to look at: see /runs/{name}")
                self._views[name] = LiveView(open_cluster(path))
            return self._views[name]

    async def _start(self, request: Request) -> Response:
        plan = plan_of(await _body(request))
        await asyncio.to_thread(self._add, plan)
        return ascii_json({"name": plan.name})

    def _add(self, plan: ClusterPlan) -> None:
        with self._lock:
            if plan.name in self._starting:
                raise UsageError(f"{plan.name} exists: choose another name")
            self._starting.add(plan.name)
        try:
            cluster = start_cluster(self._runs.place.new_runs(), plan)
            with self._lock:
                self._views[plan.name] = LiveView(cluster, ends_with_page=True)
        finally:
            with self._lock:
                self._starting.discard(plan.name)

    def _end(self, view: LiveView, _: Fields) -> Fields:
        view.end()
        with self._lock:
            # Its links have no proxies any more: who looks at it again opens it anew.
            self._views = {name: other for name, other in self._views.items() if other is not view}
        return {}

    def _page(self, request: Request, render: Callable[..., Response]) -> Response:
        view = self._view(request)
        by_scope: dict[str, list[Any]] = {MEMBER: [], LINK: [], CLUSTER: []}
        for button in buttons(view.cluster.system):
            by_scope[button.scope].append(button)
        return render(
            "live.html",
            name=request.path_params["name"],
            spec=view.cluster.config,
            runtime=view.cluster.runtime,
            read_only=self.is_read_only,
            has_links=view.has_links,
            of_members=by_scope[MEMBER],
            of_links=by_scope[LINK],
            of_cluster=by_scope[CLUSTER],
            load=LoadPlan(),
            sessions_max=sessions_max(view.cluster.config),
            ends_with_page=view.ends_with_page,
        )

    async def _events(self, request: Request) -> Response:
        await asyncio.to_thread(self._view, request)

        async def events() -> AsyncIterator[str]:
            while not self._is_ending():
                state = await asyncio.to_thread(self._state, request)
                yield f"data: {json.dumps(state)}\n\n"
                await asyncio.sleep(LOOK_EVERY_S)

        return StreamingResponse(events(), media_type="text/event-stream")

    def _state(self, request: Request) -> Fields:
        """What keeps it from being seen is an event, too: a folder that is gone ends no page by a traceback."""
        try:
            return self._view(request).state()
        except (HarnessError, OSError) as error:
            return {"error": " ".join(str(error).split())}

    def _act(self, act: Callable[[LiveView, Fields], Fields]) -> Any:
        async def endpoint(request: Request) -> Response:
            fields = await _body(request)
            view = await asyncio.to_thread(self._view, request)
            return ascii_json(await asyncio.to_thread(act, view, fields))

        return endpoint

    def _save(self, view: LiveView, fields: Fields) -> Fields:
        """The text, and the file that now has it; with `runs` also a simulated run of it."""
        runs = truth(fields, "runs", default=False)
        if runs:
            require_shipped(view.run.read_manifest())
        scenario = scenario_by_hand(view.run)
        path = _new_file(self._runs.place.new_runs(), scenario.name)
        write_atomically(path, scenario.text)
        run = self._run_simulated(path) if runs else {}
        return {"text": scenario.text, "path": str(path), **run}

    def _run_simulated(self, path: Path) -> Fields:
        folder = self._runs.place.new_runs() / path.stem
        arguments = ["run", str(path), "--runtime", "simulated", "--dir", str(folder), "--json"]
        done = self._programs.run(arguments, limit_s=_RUN_TIMEOUT_S)
        if done.returncode not in (CommandStatus.VALID, CommandStatus.BROKEN, CommandStatus.UNKNOWN):
            reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            raise EnvironmentFault(f"the scenario did not run: {reason}")
        return {"run": path.stem, "verdict": jsonfields.parse_object(done.stdout)["verdict"]}


async def _body(request: Request) -> Fields:
    try:
        return jsonfields.parse_object((await request.body()).decode("utf-8"))
    except (jsonfields.FieldError, UnicodeDecodeError) as error:
        raise UsageError(f"expected a JSON object: {error}") from error


def _new_file(folder: Path, name: str) -> Path:
    number = 1
    while (path := folder / f"{name}-{number}{SUFFIX}").exists() or (folder / path.stem).exists():
        number += 1
    return path


def _inject(view: LiveView, fields: Fields) -> Fields:
    return {"name": view.hands.inject(text(fields, "statement"), seconds(fields, "for_s"))}


def _heal(view: LiveView, fields: Fields) -> Fields:
    view.hands.heal(text(fields, "name"))
    return {}


def _heal_all(view: LiveView, _: Fields) -> Fields:
    view.hands.heal_all()
    return {}


def _command(view: LiveView, fields: Fields) -> Fields:
    view.hands.command(text(fields, "word"))
    return {}


def _start_load(view: LiveView, fields: Fields) -> Fields:
    usual = LoadPlan()
    view.load.start(
        LoadPlan(
            users=whole(fields, "users", usual.users),
            rate=number(fields, "rate", usual.rate),
            user=text(fields, "user", "") or None,
        )
    )
    return view.load.state()


def _set_rate(view: LiveView, fields: Fields) -> Fields:
    view.load.set_rate(number(fields, "rate", LoadPlan().rate))
    return view.load.state()


def _stop_load(view: LiveView, _: Fields) -> Fields:
    view.load.stop()
    return view.load.state()
