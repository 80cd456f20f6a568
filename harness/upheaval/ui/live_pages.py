"""The page of a cluster that runs, the stream of events that it draws, and what its buttons ask for."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from upheaval.errors import EnvironmentFault, UnknownOutcome, UsageError
from upheaval.records import jsonfields, write_atomically
from upheaval.runtimes import cluster_file
from upheaval.scenario.by_hand import scenario_by_hand
from upheaval.scenario.statements import SUFFIX
from upheaval.ui.catalogue import CLUSTER, LINK, MEMBER, buttons
from upheaval.ui.live import LOOK_EVERY_S, LiveView
from upheaval.ui.runs import Runs
from upheaval_chaos.exit_status import CommandStatus
from upheaval_chaos.programs import run_program

_RUN_TIMEOUT_S: Final = 600
Fields = Mapping[str, Any]


class LivePages:
    """Of the clusters in a folder of runs; each is opened when it is looked at first."""

    def __init__(self, runs: Runs, *, is_read_only: bool, is_ending: Callable[[], bool]) -> None:
        self._runs = runs
        self._is_read_only = is_read_only
        self._is_ending = is_ending
        self._views: dict[str, LiveView] = {}
        self._lock = threading.Lock()

    def routes(self, render: Callable[..., Response]) -> list[Any]:
        """`render` makes a page from a template. Longer paths first: the name of a run may have a slash."""
        acts: Mapping[str, Callable[[LiveView, Fields], Fields]] = {
            "inject": _inject,
            "heal": _heal,
            "heal-all": _heal_all,
            "command": _command,
            "scenario": self._save,
        }
        return [
            *(Route(f"/api/live/{{name:path}}/{word}", self._act(act), methods=["POST"]) for word, act in acts.items()),
            Route("/api/live/{name:path}/state", lambda request: JSONResponse(self._view(request).state())),
            Route("/api/live/{name:path}/log", lambda request: JSONResponse(self._view(request).last_lines())),
            Route("/api/live/{name:path}/events", self._events),
            Route("/live/{name:path}", lambda request: self._page(request, render)),
        ]

    def close(self) -> None:
        """Heal what has an end, and give back the handles; the clusters go on."""
        for view in self._views.values():
            view.close()

    def _view(self, request: Request) -> LiveView:
        name = request.path_params["name"]
        path = self._runs.path(name)
        with self._lock:
            if name not in self._views:
                if not cluster_file.has_cluster(path):
                    raise UsageError(f"{name} has no cluster to look at: see /runs/{name}")
                self._views[name] = LiveView(path)
            return self._views[name]

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
            read_only=self._is_read_only,
            has_links=view.has_links,
            of_members=by_scope[MEMBER],
            of_links=by_scope[LINK],
            of_cluster=by_scope[CLUSTER],
        )

    async def _events(self, request: Request) -> Response:
        view = await asyncio.to_thread(self._view, request)

        async def events() -> AsyncIterator[str]:
            while not self._is_ending():
                state = await asyncio.to_thread(view.state)
                yield f"data: {json.dumps(state)}\n\n"
                await asyncio.sleep(LOOK_EVERY_S)

        return StreamingResponse(events(), media_type="text/event-stream")

    def _act(self, act: Callable[[LiveView, Fields], Fields]) -> Any:
        async def endpoint(request: Request) -> Response:
            try:
                fields = jsonfields.parse_object((await request.body()).decode("utf-8"))
            except (jsonfields.FieldError, UnicodeDecodeError) as error:
                raise UsageError(f"expected a JSON object: {error}") from error
            view = await asyncio.to_thread(self._view, request)
            return JSONResponse(await asyncio.to_thread(act, view, fields))

        return endpoint

    def _save(self, view: LiveView, fields: Fields) -> Fields:
        """The text, and the file that now has it; with `runs` also a simulated run of it."""
        scenario = scenario_by_hand(view.run)
        path = _new_file(self._runs.folder, scenario.name)
        write_atomically(path, scenario.text)
        run = _run_simulated(self._runs, path) if fields.get("runs") is True else {}
        return {"text": scenario.text, "path": str(path), **run}


def _new_file(folder: Path, name: str) -> Path:
    number = 1
    while (path := folder / f"{name}-{number}{SUFFIX}").exists() or (folder / path.stem).exists():
        number += 1
    return path


def _run_simulated(runs: Runs, path: Path) -> Fields:
    """In a process of its own, as if it had been typed."""
    folder = runs.folder / path.stem
    command = [sys.executable, "-m", "upheaval.cli.main", "run", str(path), "--runtime", "simulated"]
    try:
        done = run_program([*command, "--dir", str(folder), "--json"], limit_s=_RUN_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise UnknownOutcome(f"the scenario in {path} runs for longer than {_RUN_TIMEOUT_S} s") from error
    if done.returncode not in (CommandStatus.VALID, CommandStatus.BROKEN, CommandStatus.UNKNOWN):
        raise EnvironmentFault(f"the scenario did not run: {done.stderr.strip().splitlines()[-1:]}")
    return {"run": path.stem, "verdict": jsonfields.parse_object(done.stdout)["verdict"]}


def _inject(view: LiveView, fields: Fields) -> Fields:
    for_s = fields.get("for_s")
    if for_s is not None and not isinstance(for_s, int | float):
        raise UsageError(f"for_s: expected seconds, got {for_s!r}")
    return {"name": view.hands.inject(_text(fields, "statement"), for_s)}


def _heal(view: LiveView, fields: Fields) -> Fields:
    view.hands.heal(_text(fields, "name"))
    return {}


def _heal_all(view: LiveView, _: Fields) -> Fields:
    view.hands.heal_all()
    return {}


def _command(view: LiveView, fields: Fields) -> Fields:
    view.hands.command(_text(fields, "word"))
    return {}


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise UsageError(f"{name}: expected a text, got {value!r}")
    return value
