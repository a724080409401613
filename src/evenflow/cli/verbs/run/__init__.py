"""The verb ``evenflow run``."""

from evenflow.cli.verbs.run.command import run

__all__ = ["run"]
