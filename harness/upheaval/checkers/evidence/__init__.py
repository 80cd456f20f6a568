"""What a run folder holds: readers of each part, and the promises that it is complete, whole and unchanged."""
