"""Plans that the check writes: random cuts, empty at the ends, with any number of recomputed layers in each stage."""

import random
from collections.abc import Iterator

from evenflow.model import FULL, Plan, cells

COUNT = 260


def all_plans() -> Iterator[tuple[str, Plan]]:
    """Yield names and plans, always the same."""
    for index in range(COUNT):
        rng = random.Random(index)
        ranks = 1 + index % 8
        counts = [rng.randint(0 if rank in (0, ranks - 1) else 1, 6) for rank in range(ranks)]
        if sum(counts) == 0:
            counts[0] = 1
        full = [rng.randint(0, count) for count in counts]
        yield (
            f"random-{index:03}",
            Plan(
                schedule="1f1b",
                num_microbatches=rng.randint(1, 3 * ranks),
                layers=cells([counts]),
                recompute={FULL: cells([full])} if any(full) else {},
            ),
        )
