"""Pure functions from the files of a run to a verdict: no cluster, no clock, no network."""

# Imported before any module that may be compiled, because it installs the finder of compiled modules.
import upheaval_node as upheaval_node
