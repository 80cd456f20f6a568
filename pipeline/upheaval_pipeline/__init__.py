"""Spark jobs that read the run folders of many runs."""
