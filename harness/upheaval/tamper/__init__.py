"""Forged run folders: edits that leave a consistent folder, and the verdict on each.

What a run is judged by is repeated in many files. An edit changes one fact in all of them, as a liar with access to the
whole folder would, or as a broken system would have left them. Then the folder is sealed anew.
"""
