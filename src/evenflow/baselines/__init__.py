"""Plans that nobody had to search for, to compare with: equal cells, equal stages, the rule of thumb."""
