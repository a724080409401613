"""The verb ``evenflow auto``."""

from evenflow.cli.verbs.auto.command import auto

__all__ = ["auto"]
