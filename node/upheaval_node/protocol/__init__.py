"""Bytes on the wire: SBE messages, Aeron frames, channel URIs. Knows nothing of who sends what and when."""
