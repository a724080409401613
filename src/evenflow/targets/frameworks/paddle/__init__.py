"""Paddle: plans as a Python module and lines of the strategy, and its arguments as plans."""
