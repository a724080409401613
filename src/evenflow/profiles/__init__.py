"""Readers: one a source, from text or a path to model objects."""
