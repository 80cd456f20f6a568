"""The promises of consensus: votes, commits, leaders, orderly ends, and authentication."""
