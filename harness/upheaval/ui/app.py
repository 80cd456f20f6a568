"""What the server of `upheaval ui` answers: pages, the files that they are made of, and the same figures as JSON."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from upheaval.errors import HarnessError, UsageError
from upheaval.load.settings import SHORT_NAMES
from upheaval.records.utf8 import storable
from upheaval.report import duration
from upheaval.report.document import BROWSER as OF_REPORTS, environment
from upheaval.runtime_names import LIVE_RUNTIMES
from upheaval.system import AERON, CLUSTER_OF_THREE
from upheaval.ui.beside import Side, drawing_of, rows_of, to_fields
from upheaval.ui.campaigns import Campaign
from upheaval.ui.live_pages import LivePages
from upheaval.ui.responses import ascii_json
from upheaval.ui.runs import Runs

_HERE: Final = Path(__file__).parent
_TYPES: Final = {".css": "text/css", ".js": "text/javascript"}
_STATIC: Final = {
    file.name: file for folder in (OF_REPORTS, _HERE / "browser") for file in folder.iterdir() if file.suffix in _TYPES
}
"""Of the page of a run, and of the pages of this server."""
_OF_REPORT: Final = {"content-security-policy": "frame-ancestors 'none'"}
"""The page of a run has its policy in itself, with the digests of its scripts."""

Endpoint = Callable[[Request], Response]


class Pages:
    """The pages and endpoints on the runs of one folder."""

    def __init__(self, runs: Runs, live: LivePages) -> None:
        self._runs = runs
        self._live = live
        self._templates = environment(_HERE / "templates", {"duration": duration})

    def routes(self) -> list[Any]:
        """Longer paths first: the name of a run may have a slash."""
        data: Mapping[str, Callable[[str], Any]] = {
            "summary": lambda name: self._runs.row(name).to_fields(),
            "verdict": self._runs.verdict,
            "figures": self._runs.figures,
        }
        return [
            Route("/", self._list),
            Route("/static/{file}", _static),
            Route("/api/runs", lambda _: ascii_json([row.to_fields() for row in self._runs.place.rows()])),
            *(Route(f"/api/runs/{{name:path}}/{word}", _json_of(look)) for word, look in data.items()),
            Route("/runs/{name:path}", self._run),
            Route("/api/campaigns/{name:path}", lambda request: ascii_json(self._campaign(request).look())),
            Route("/campaigns/{name:path}", self._campaign_page),
            Route("/api/compare", lambda request: ascii_json(to_fields(*self._sides(request)))),
            Route("/compare", self._compare),
            *self._live.routes(self.render),
        ]

    def render(self, template: str, **values: Any) -> Response:
        """A page from a template, in which every value is escaped."""
        return HTMLResponse(storable(self._templates.get_template(template).render(**values)))

    def _list(self, _: Request) -> Response:
        rows = self._runs.place.rows()
        return self.render(
            "runs.html",
            title=self._runs.place.title,
            rows=rows,
            campaigns=self._runs.place.campaigns(),
            read_only=self._live.is_read_only,
            usual=CLUSTER_OF_THREE,
            services=tuple(SHORT_NAMES),
            systems=(CLUSTER_OF_THREE.system, AERON),
            runtimes=LIVE_RUNTIMES,
        )

    def _run(self, request: Request) -> Response:
        name = request.path_params["name"]
        archived = self._runs.archived(name)
        if archived is not None:
            return self.render(
                "archived_run.html",
                run=archived,
                findings=[] if archived.report is None else archived.report.worst_first,
            )
        return HTMLResponse(self._runs.page(name), headers=_OF_REPORT)

    def _campaign(self, request: Request) -> Campaign:
        return self._runs.campaign(request.path_params["name"])

    def _campaign_page(self, request: Request) -> Response:
        self._campaign(request)
        return self.render("campaign.html", name=request.path_params["name"])

    def _compare(self, request: Request) -> Response:
        a, b = self._sides(request)
        return self.render("beside.html", a=a, b=b, rows=rows_of(a, b), drawing=drawing_of(a, b))

    def _sides(self, request: Request) -> tuple[Side, Side]:
        try:
            names = request.query_params["a"], request.query_params["b"]
        except KeyError as error:
            raise UsageError("name two runs: /compare?a=NAME&b=NAME") from error
        return self._runs.side(names[0]), self._runs.side(names[1])


def application(pages: Pages) -> Any:
    """An ASGI application; what is wrong with a request is one line of JSON.

    So is a file that goes away while it is read: a run that is being written replaces its files.
    """
    return Starlette(routes=pages.routes(), exception_handlers={HarnessError: _refused, OSError: _refused})


def _json_of(look: Callable[[str], Any]) -> Endpoint:
    def endpoint(request: Request) -> Response:
        text = json.dumps(look(request.path_params["name"]))
        return Response(text, media_type="application/json")

    return endpoint


def _static(request: Request) -> Response:
    file = _STATIC.get(request.path_params["file"])
    if file is None:
        return Response(status_code=404)
    return Response(file.read_text(encoding="utf-8"), media_type=_TYPES[file.suffix])


def _refused(_: Request, error: Exception) -> Response:
    return ascii_json({"error": " ".join(str(error).split())}, status_code=400)
