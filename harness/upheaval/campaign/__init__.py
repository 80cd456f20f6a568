"""Campaigns: many seeds of the simulated runtime, each another cluster with other faults, all judged alike."""

# Before any module that may be compiled: this puts the finder of compiled modules in place.
import upheaval_node as upheaval_node
