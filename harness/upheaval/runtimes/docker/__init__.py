"""The docker runtime: one container per member."""
