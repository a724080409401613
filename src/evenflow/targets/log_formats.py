"""The formats of logs that are read: those of all targets, and NeMo's, which no plan is written for."""

from functools import cache

from evenflow.profiles.measured.logs.log_format import LogFormats
from evenflow.targets.megatron_family.nemo_logs import NEMO
from evenflow.targets.registry import all_targets


@cache
def log_formats() -> LogFormats:
    """Return all formats; one that gives way to others comes behind them."""
    formats = [log_format for target in all_targets().values() for log_format in target.logs]
    return LogFormats(formats=tuple(sorted([*formats, NEMO], key=lambda log_format: log_format.gives_way)))
