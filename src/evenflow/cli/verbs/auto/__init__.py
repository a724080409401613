"""The verb ``evenflow auto``."""

from evenflow.cli.verbs.auto.auto_command import auto

__all__ = ["auto"]
