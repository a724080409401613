"""The rank of a process, as torchrun tells it in the environment. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.language import _

_TORCHRUN = "TORCHELASTIC_RUN_ID"
"""Set by torchrun alone; other launchers and shells may have a RANK too."""


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
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.num_processes),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.num_local),
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(self.port),
        }


def is_started_by_torchrun(environment: Mapping[str, str]) -> bool:
    """Return whether torchrun has set the environment."""
    return _TORCHRUN in environment and "RANK" in environment


def rank_environment(environment: Mapping[str, str]) -> RankEnvironment:
    """Read which rank this process is.

    Raises:
        InputError: a variable is missing.
    """
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in names if name not in environment]
    if missing:
        raise InputError(
            rule=_("must have the variables of a rank; missing: {names}", names=", ".join(missing)),
            place=_("the environment"),
            remedy=_("start the processes with torchrun, or use `evenflow run` on one machine"),
        )
    return RankEnvironment(
        rank=int(environment["RANK"]),
        num_processes=int(environment["WORLD_SIZE"]),
        local_rank=int(environment["LOCAL_RANK"]),
        num_local=int(environment["LOCAL_WORLD_SIZE"]),
        address=environment["MASTER_ADDR"],
        port=int(environment["MASTER_PORT"]),
    )
