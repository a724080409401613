"""The rank of a process, as torchrun tells it in the environment. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.language import _

_TORCHRUN = "TORCHELASTIC_RUN_ID"
"""Set by torchrun alone; other launchers and shells may have a RANK too."""
_VARIABLES = {
    "rank": "RANK",
    "num_processes": "WORLD_SIZE",
    "local_rank": "LOCAL_RANK",
    "num_local": "LOCAL_WORLD_SIZE",
    "address": "MASTER_ADDR",
    "port": "MASTER_PORT",
}
"""The environment variable of every field of a `RankEnvironment`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnvironment:
    """The place of one process among those of a run."""

    rank: int
    num_processes: int
    local_rank: int
    num_local: int
    """Processes on this machine."""
    address: str
    """Host of the process of rank 0."""
    port: int

    def variables(self) -> dict[str, str]:
        """Return the environment variables that torch.distributed reads; `rank_environment` is the inverse."""
        return {variable: str(getattr(self, field)) for field, variable in _VARIABLES.items()}


def is_started_by_torchrun(environment: Mapping[str, str]) -> bool:
    """Return whether torchrun has set the environment."""
    return _TORCHRUN in environment and "RANK" in environment


def rank_environment(environment: Mapping[str, str]) -> RankEnvironment:
    """Read which rank this process is.

    Raises:
        InputError: a variable is missing.
    """
    missing = [variable for variable in _VARIABLES.values() if variable not in environment]
    if missing:
        raise InputError(
            rule=_("must have the variables of a rank; missing: {names}", names=", ".join(missing)),
            place=_("the environment"),
            remedy=_("start the processes with torchrun, or use `evenflow run` on one machine"),
        )
    values = {field: environment[variable] for field, variable in _VARIABLES.items()}
    address = values.pop("address")
    return RankEnvironment(address=address, **{field: int(value) for field, value in values.items()})
