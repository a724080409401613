"""Stages on submeshes: what they cost, and which ones to take."""
