"""The verb ``evenflow export``."""

from evenflow.cli.verbs.export.export_command import export

__all__ = ["export"]
