"""The settings of the planner's tests hold here too."""

from tests.conftest import collect_ignore_glob, compiled_loops

__all__ = ["collect_ignore_glob", "compiled_loops"]
