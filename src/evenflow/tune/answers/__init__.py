"""Answers after a ranking: why a row is not the first, what one change of a setting costs, what else would do."""
