"""Campaigns: many seeds of the simulated runtime, each a different cluster with different faults, all judged the same
way.
"""

# Comes before any module that may be compiled, because it installs the finder of compiled modules.
import upheaval_node as upheaval_node
