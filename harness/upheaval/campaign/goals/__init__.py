"""Named situations that a run may reach, as predicates over what its members traced.

They measure how much of the protocol a campaign exercises. A goal that is not reached breaks no promise.
"""
