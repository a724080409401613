"""The verb ``evenflow run``."""

from evenflow.cli.verbs.run.run_command import run

__all__ = ["run"]
