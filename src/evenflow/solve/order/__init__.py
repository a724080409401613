"""Planning of the order of work: search, exact lower bounds, and alternation with the partition."""
