"""Planning over schedule families, chunk counts and group sizes within one time limit, in a contest of all."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Cells, Communication, Network, Request, Sizes, mixing
from evenflow.schedule import FAMILIES, default_family, family_name
from evenflow.solve.best_outcome import BestOutcome
from evenflow.solve.contest.contest import Contest, Entry
from evenflow.solve.group_choice import GroupSizes, tried_group_sizes
from evenflow.solve.outcome import ProgressCallback
from evenflow.solve.plan_bounds import AnyPlan, any_order_lower_bound
from evenflow.solve.problem import make_problem

MOST_CHUNKS = 4
"""Largest number of chunks that is tried where none is asked for."""


def chunk_counts(network: Network, *, num_ranks: int) -> tuple[int, ...]:
    """Return 1 to 4 chunks per rank, as far as every cell has a layer."""
    return tuple(count for count in range(1, MOST_CHUNKS + 1) if count == 1 or count * num_ranks <= network.num_layers)


def plan_best(
    network: Network,
    *,
    num_ranks: int,
    num_microbatches: int,
    num_chunks: Sequence[int] = (),
    families: Sequence[str] = (),
    memory_limit_bytes: int | None = None,
    sequence_splits: int = 1,
    mix_any: bool = False,
    allow_empty: bool = False,
    communication: Communication | None = None,
    layers: Mapping[int, Cells] | None = None,
    group_sizes: GroupSizes = "promising",
    time_limit_s: float = 60.0,
    progress: ProgressCallback | None = None,
) -> BestOutcome:
    """Return the plan with the shortest makespan over schedule families, numbers of chunks and group sizes.

    Tried are the `families` (default: all but those that only serve comparison) with each of `num_chunks` (default:
    1 to 4 while the layers suffice) that they have. Interleaved families are tried with the usual group size and up to
    two promising ones; with `group_sizes` ``usual`` with that one alone, with ``every`` with all that make different
    orders. `layers` gives the layers of every cell ``[chunk][rank]`` by number of chunks, and no others are tried then.
    The rest is as for `plan`; `time_limit_s` is for all together.

    Raises InputError where no candidate can be tried, and Interrupted when Ctrl-C comes before any plan.
    """
    sizes = Sizes(num_ranks=num_ranks, num_microbatches=num_microbatches, sequence_splits=sequence_splits)
    request = Request(
        network=network,
        sizes=sizes,
        memory_limit_bytes=memory_limit_bytes,
        cell_rule=mixing(mix_any),
        allow_empty=allow_empty,
        communication=communication,
    )
    return solve_best(
        request,
        num_chunks=num_chunks,
        families=families,
        layers=layers,
        group_sizes=group_sizes,
        time_limit_s=time_limit_s,
        progress=progress,
    )


def solve_best(
    request: Request,
    *,
    num_chunks: Sequence[int] = (),
    families: Sequence[str] = (),
    layers: Mapping[int, Cells] | None = None,
    group_sizes: GroupSizes = "promising",
    time_limit_s: float = 60.0,
    progress: ProgressCallback | None = None,
) -> BestOutcome:
    """Return the best plan of `request`, whose own number of chunks, group size and layers do not count.

    `plan_best` says the rest.
    """
    began = time.monotonic()
    counts = tuple(num_chunks) or tuple(layers or chunk_counts(request.network, num_ranks=request.sizes.num_ranks))
    if layers is not None:
        counts = tuple(count for count in counts if count in layers)
    names = [family_name(name) for name in families] or [
        name for name, family in FAMILIES.items() if not family.comparison_only
    ]
    pairs = schedule_pairs(names, counts, sequence_splits=request.sizes.sequence_splits)
    if not pairs:
        raise InputError(
            value=list(counts),
            rule=_("must be one that a schedule has of {names}", names=", ".join(names)),
            place=_("the number of chunks"),
        )

    def request_of(count: int, group_size: int | None = None) -> Request:
        sizes, kept = replace(request.sizes, num_chunks=count), None if layers is None else layers[count]
        return replace(request, sizes=sizes, layers=kept, group_size=group_size)

    floors = {
        count: any_order_lower_bound(AnyPlan.of(request_of(count), may_split=True))
        for count in dict.fromkeys(count for _, count in pairs)
    }
    entries = [
        Entry(schedule=name, num_chunks=count, group_size=size, floor_ns=floors[count])
        for name, count in pairs
        for size in tried_group_sizes(request_of(count), name, which=group_sizes)
    ]
    contest = Contest(
        entries,
        lambda entry: make_problem(request_of(entry.num_chunks, entry.group_size), schedule=entry.schedule),
        began=began,
        memory_limit_bytes=request.memory_limit_bytes if request.network.has_memory else None,
        time_limit_s=time_limit_s,
        progress=progress,
    )
    contest.run()
    return contest.outcome()


def schedule_pairs(names: Sequence[str], counts: Sequence[int], *, sequence_splits: int) -> list[tuple[str, int]]:
    """Return families and chunk counts to try: few chunks first, for each the default family before other `names`."""
    return [
        (name, count)
        for count in counts
        for name in sorted(dict.fromkeys(names), key=lambda name: name != default_family(num_chunks=count))
        if FAMILIES[name].has_chunks(count) and (FAMILIES[name].can_split or sequence_splits == 1)
    ]
