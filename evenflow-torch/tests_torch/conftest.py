"""The settings of the planner's tests hold here too."""

from tests.conftest import collect_ignore_glob, pytest_collection_finish

__all__ = ["collect_ignore_glob", "pytest_collection_finish"]
