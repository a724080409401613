"""Exit statuses of every command."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `evenflow --help` needs this file and not the solver
    from evenflow.solve import Status

FAILED = 1
BAD_INPUT = 2
INFEASIBLE = 3
TIMEOUT = 4
MISMATCH = 5
INTERRUPTED = 130
BROKEN_PIPE = 141


def status_code(status: "Status") -> int:
    """The exit status that says how a solve ended: 0 with a plan."""
    return {"infeasible": INFEASIBLE, "timeout": TIMEOUT}.get(status.value, 0)
