"""Attention on the devices of a stage: by samples, by heads, or by rows of the query."""
