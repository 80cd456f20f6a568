"""Campaigns: many seeds of the simulated runtime, each another cluster with other faults, all judged alike."""
