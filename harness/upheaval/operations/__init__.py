"""What operators do to whole clusters: restore from a backup, upgrade, replace a host."""
