"""The names of the runtimes, once. Nothing is imported for them."""

from typing import Final

SIMULATED: Final = "simulated"
PROCESS: Final = "process"
DOCKER: Final = "docker"
LIVE_RUNTIMES: Final = (PROCESS, DOCKER)
RUNTIMES: Final = (SIMULATED, *LIVE_RUNTIMES)
