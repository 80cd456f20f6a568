"""The names of the runtimes, and where live ones run, once. Nothing is imported for them."""

from typing import Final

SIMULATED: Final = "simulated"
PROCESS: Final = "process"
DOCKER: Final = "docker"
LIVE_RUNTIMES: Final = (PROCESS, DOCKER)
LIVE_SYSTEM: Final = "Linux"
"""The operating system of members, and of what starts them: it reads /proc. As `platform.system()` names it."""
RUNTIMES: Final = (SIMULATED, *LIVE_RUNTIMES)
