"""What every suite relies on, however it was started."""

import os
import signal

# The suites are about the sources, with modules compiled or not; `make compiled-test` runs them on those.
os.environ.setdefault("UPHEAVAL_PURE", "1")

# A shell without job control starts background commands with SIGINT ignored, and children inherit that: a test that
# interrupts a child would wait for ever. With a handler here, children begin with the default again.
signal.signal(signal.SIGINT, signal.default_int_handler)
