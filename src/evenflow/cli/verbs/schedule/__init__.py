"""The verb ``evenflow schedule``."""

from evenflow.cli.verbs.schedule.command import schedule

__all__ = ["schedule"]
