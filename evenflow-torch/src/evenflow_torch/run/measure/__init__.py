"""Measurements of a run, and their comparison with the prediction."""
