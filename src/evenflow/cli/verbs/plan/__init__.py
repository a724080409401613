"""The verb ``evenflow plan``."""

from evenflow.cli.verbs.plan.command import plan

__all__ = ["plan"]
