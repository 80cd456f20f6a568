"""Pure functions from the files of a run to a verdict: no cluster, no clock, no network."""
