"""The verb ``evenflow plan``."""

from evenflow.cli.verbs.plan.plan_command import plan

__all__ = ["plan"]
