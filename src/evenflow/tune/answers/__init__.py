"""What is asked after a ranking: why a row is not the first, what one step away costs, what else would do."""
