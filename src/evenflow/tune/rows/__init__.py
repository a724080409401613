"""Rows of the ranking: each is one way to split the devices, with all of its configurations."""
