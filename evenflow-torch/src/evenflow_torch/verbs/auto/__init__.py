"""The verb ``evenflow auto``."""

from evenflow_torch.verbs.auto.auto_command import auto

__all__ = ["auto"]
