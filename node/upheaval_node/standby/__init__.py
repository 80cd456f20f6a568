"""A standby: a backup that runs the services on the log it follows, and takes snapshots for the members."""
