"""The systems that we measure ourselves against, each started, loaded and stopped by one module."""
