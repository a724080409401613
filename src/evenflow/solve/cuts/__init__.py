"""The search over cut positions, for networks whose layers all differ."""
