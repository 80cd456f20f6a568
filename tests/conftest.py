"""What every suite relies on, however it was started."""

import signal

# A shell without job control starts background commands with SIGINT ignored, and children inherit that: a test that
# interrupts a child would wait for ever. With a handler here, children begin with the default again.
signal.signal(signal.SIGINT, signal.default_int_handler)
