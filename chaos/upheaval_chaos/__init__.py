"""Faults: what can be done to a cluster, when, and the proof that it was done."""
