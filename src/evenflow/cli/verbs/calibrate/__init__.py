"""The verb ``evenflow calibrate``."""

from evenflow.cli.verbs.calibrate.calibrate_command import calibrate

__all__ = ["calibrate"]
