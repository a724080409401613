"""The verb ``evenflow run``."""

from evenflow_torch.verbs.run.run_command import run

__all__ = ["run"]
