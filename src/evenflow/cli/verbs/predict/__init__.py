"""The verb ``evenflow predict``."""

from evenflow.cli.verbs.predict.predict_command import predict

__all__ = ["predict"]
