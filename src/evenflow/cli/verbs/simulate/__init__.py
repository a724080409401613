"""The verb ``evenflow simulate``."""

from evenflow.cli.verbs.simulate.simulate_command import simulate

__all__ = ["simulate"]
