"""Measured training runs: their configuration, what a step of them took, and what it held in memory."""
