"""The server of `upheaval ui`: one socket on loopback, one token, and what `app` answers."""

import asyncio
import secrets
import socket
from pathlib import Path
from typing import Final

import uvicorn

from upheaval.errors import EnvironmentFault
from upheaval.ui.access import TOKEN, Access
from upheaval.ui.app import Pages, application
from upheaval.ui.live_pages import LivePages
from upheaval.ui.places import FolderPlace, Place
from upheaval.ui.runs import Runs

HOST: Final = "127.0.0.1"
_GOODBYE_S: Final = 5
"""How long pages that are open may keep the server from ending."""


class PageServer:
    """Listens from the beginning; answers while `run` goes on."""

    def __init__(self, place: Path | Place, *, port: int = 0, is_read_only: bool = False) -> None:
        """Of a folder of runs or another place; port 0 is a free one. Raises `UsageError` without such a folder,
        `EnvironmentFault` for a port in use.
        """
        runs = Runs(FolderPlace(place) if isinstance(place, Path) else place)
        self.place = runs.place
        self._live = LivePages(runs, is_read_only=is_read_only, is_ending=lambda: bool(self._server.should_exit))
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((HOST, port))
            # From here on clients wait for the server: the address may be printed before it runs.
            self._socket.listen()
        except OSError as error:
            self._socket.close()
            raise EnvironmentFault(f"cannot listen on port {port}: {error.strerror}: use another --port") from error
        self.port: int = self._socket.getsockname()[1]
        self.token = secrets.token_urlsafe(24)
        access = Access(
            application(Pages(runs, self._live)), port=self.port, token=self.token, is_read_only=is_read_only
        )
        settings = uvicorn.Config(
            access,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=_GOODBYE_S,
        )
        self._server = uvicorn.Server(settings)

    @property
    def folder(self) -> Path:
        """Where new runs go. Raises `UsageError` of a lake."""
        return self.place.new_runs()

    @property
    def address(self) -> str:
        """With the token."""
        return f"http://{HOST}:{self.port}/?{TOKEN}={self.token}"

    @property
    def is_started(self) -> bool:
        """Whether it answers."""
        return bool(self._server.started)

    def run(self) -> None:
        """Answer until `end`, or until a signal ends the program."""
        try:
            asyncio.run(self._serve())
        finally:
            self._live.close()

    async def _serve(self) -> None:
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            # The loop does not end before the threads that wait for them.
            self._live.end_programs()

    def end(self) -> None:
        """From any thread."""
        self._server.should_exit = True
