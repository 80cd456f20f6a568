"""The simulated runtime: virtual clock, network and disk under the unchanged core. One seed gives one execution."""

# Comes before any module that may be compiled, because it installs the finder of compiled modules.
import upheaval_node as upheaval_node
