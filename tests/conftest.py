"""What every suite relies on, however it was started."""

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from support.examples import NIGHT

# The suites are about the sources, with modules compiled or not; `make compiled-test` runs them on those.
os.environ.setdefault("UPHEAVAL_PURE", "1")

# Members in Java live for seconds: the second compiler would cost more than it saves.
os.environ.setdefault("UPHEAVAL_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

# A shell without job control starts background commands with SIGINT ignored, and children inherit that: a test that
# interrupts a child would wait for ever. With a handler here, children begin with the default again.
signal.signal(signal.SIGINT, signal.default_int_handler)

# By itself hypothesis fails an example that takes 200 ms, and draws that take long: a busy machine would fail any test.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(NIGHT, settings.get_profile("any-machine"))
settings.load_profile("any-machine")


def pytest_configure(config: pytest.Config) -> None:
    """Tests are imported later, and ask the profile how many examples they draw."""
    if "not nightly" not in config.option.markexpr:
        settings.load_profile(NIGHT)


def pytest_collection_finish() -> None:
    """Modules stay until the end: no collection looks through them again, here or in a child."""
    gc.freeze()
