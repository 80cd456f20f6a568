"""Measurements beside other systems, and of our own time-outs and sizes. Not part of the distribution."""
