"""The backup agent: copies of the newest snapshots and of the log, kept outside the cluster's members."""
