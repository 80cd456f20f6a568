"""Readers for each part of a run folder, and the promises that the folder is complete, whole and unchanged."""
