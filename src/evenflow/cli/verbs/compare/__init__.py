"""The verb ``evenflow compare``."""

from evenflow.cli.verbs.compare.compare_command import compare

__all__ = ["compare"]
