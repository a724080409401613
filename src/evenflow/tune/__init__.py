"""Choosing the degrees of a training: how many ways to split it over its devices, with a proof."""
