"""How chunks pass the ranks: what lets plans be built up rank by rank."""

from evenflow.schedule import Schedule


def passes_of(schedule: Schedule) -> tuple[tuple[int, ...], bool] | None:
    """Return the ranks in the order of the first chunk and whether the second chunk goes back through them.

    None for any other placement, and where there are more than two chunks.
    """
    ranks = schedule.stage_ranks[: schedule.num_ranks]
    rest = schedule.stage_ranks[schedule.num_ranks :]
    if len(set(ranks)) < len(ranks) or rest not in ((), ranks, ranks[::-1]):
        return None
    return ranks, rest not in ((), ranks)
