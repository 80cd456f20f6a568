"""The simulated runtime: virtual clock, network and disk under the unchanged core, one seed for one execution."""
