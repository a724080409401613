"""The main job: the shortest step that fits in memory, with its proof."""

from evenflow.model import Communication, Network
from evenflow.solve.outcome import Outcome, ProgressCallback


def plan(
    network: Network,
    *,
    num_ranks: int,
    num_microbatches: int,
    num_chunks: int = 1,
    memory_limit_bytes: int | None = None,
    schedule: str | None = None,
    less_memory: bool = False,
    sequence_splits: int = 1,
    mix_any: bool = False,
    allow_empty: bool = False,
    communication: Communication | None = None,
    time_limit_s: float = 60.0,
    progress: ProgressCallback | None = None,
) -> Outcome:
    """Layers and recompute counts of every cell that minimise the makespan within the memory limit."""
    raise NotImplementedError
