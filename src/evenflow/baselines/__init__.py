"""Plans that need no search, to compare with: equal cells, equal stages, and the rule of thumb."""
