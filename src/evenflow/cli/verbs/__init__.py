"""One module a verb, and beside it what only that verb needs."""
