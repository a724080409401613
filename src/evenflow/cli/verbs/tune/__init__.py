"""The verb ``evenflow tune``."""

from evenflow.cli.verbs.tune.tune_command import tune

__all__ = ["tune"]
