"""The fixtures of the planner's verbs: the command run in this process, in a folder of its own."""

from tests.cli.conftest import evenflow, fake_solver, folder

__all__ = ["evenflow", "fake_solver", "folder"]
