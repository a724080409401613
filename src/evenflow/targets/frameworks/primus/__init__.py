"""Primus: plans as overrides of its experiments, and its experiments as plans."""
