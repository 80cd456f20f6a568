"""`upheaval watch`: follows the files of a run that goes on, and judges what they say so far."""
