"""A linear program over numbers of layers, for rows of many kinds of layers: a bound, and plans from its solution."""
