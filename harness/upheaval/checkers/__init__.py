"""Pure functions from the files of a run to a verdict: no cluster, no clock, no network."""

# Before any module that may be compiled: this puts the finder of compiled modules in place.
import upheaval_node as upheaval_node
