"""The verb ``evenflow demo``."""

from evenflow.cli.verbs.demo.demo_command import demo

__all__ = ["demo"]
