"""Runs scenarios and exact scripts on a runtime, and has the run judged."""
