"""The verb ``evenflow schedule``."""

from evenflow.cli.verbs.schedule.schedule_command import schedule

__all__ = ["schedule"]
