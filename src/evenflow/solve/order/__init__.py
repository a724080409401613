"""The order of work as a choice: search, exact lower bounds, alternation with the partition."""
