"""The verb ``evenflow simulate``."""

from evenflow.cli.verbs.simulate.command import simulate

__all__ = ["simulate"]
