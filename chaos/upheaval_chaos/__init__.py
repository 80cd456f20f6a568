"""Faults: what they do to a cluster, when, and the proof that they took effect."""
