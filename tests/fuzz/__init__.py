"""Malformed and odd inputs for every reader and every verb, made from a seed: `python -m tests.fuzz` (`make fuzz`)."""
