"""The simulated runtime: virtual clock, network and disk under the unchanged core, one seed for one execution."""

# Before any module that may be compiled: this puts the finder of compiled modules in place.
import upheaval_node as upheaval_node
