"""The pages of `upheaval ui`: runs of a folder, one run, and a cluster while it runs."""
