"""The linear program over the contents of ranks, and the critical paths that are its rows."""
