"""Group sizes that are tried for an interleaved schedule: all of them, or the usual one and the promising ones."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal

import numpy as np

from evenflow.model import EndBlock, Layer, Plan, Request, Sizes
from evenflow.schedule import FAMILIES, different_group_sizes, first_group_size, make_schedule, usual_group_size
from evenflow.simulate import build_graph, duration_table, run

_MOST_ACTIONS = 40_000
"""Actions of all schedules that are simulated to choose a promising group size: about half a second."""


GroupSizes = Literal["usual", "promising", "every"]
"""The group sizes that are tried: the usual one, with promising ones, with all others."""


def tried_group_sizes(request: Request, schedule: str, *, which: GroupSizes) -> tuple[int | None, ...]:
    """Return the group sizes to try under the family `schedule`, the usual one (None) first, then promising ones.

    Promising are the size that keeps the fewest activations while the pipeline stays full, where the usual one does
    not, and, where messages take time, the size with the shortest step on equal stages.
    """
    if which == "usual" or not FAMILIES[schedule].has_groups:
        return (None,)
    sizes, fill = request.sizes, usual_group_size(request.sizes)
    different = different_group_sizes(schedule, sizes)
    first = {size: _first_group(size, request) for size in different}
    full = sorted((size for size in different if size is None or size >= fill), key=lambda size: first[size])
    promising = [None, full[0]]
    if request.message_ns:
        promising.append(_fastest([size for size in full if first[size] <= 2 * fill] or [None], request, schedule))
    others = sorted(different, key=lambda size: first[size]) if which == "every" else []
    return tuple(dict.fromkeys([*promising, *others]))


def known_group_sizes(
    plans: Sequence[Plan], schedule: str, sizes: Sizes, *, which: GroupSizes
) -> tuple[int | None, ...]:
    """Return the group sizes of known plans of these sizes under the family `schedule`, which are tried as well."""
    if which == "usual":
        return ()
    return tuple(plan.group_size for plan in plans if plan.schedule == schedule and plan.sizes == sizes)


def least_group_size(request: Request, schedule: str) -> int | None:
    """Return the group size that keeps the fewest activations; None for the usual one, or without groups."""
    if not FAMILIES.get(schedule) or not FAMILIES[schedule].has_groups:
        return None
    return min(different_group_sizes(schedule, request.sizes), key=lambda size: _first_group(size, request))


def _first_group(size: int | None, request: Request) -> int:
    """Return the number of microbatches of the first group, which decides how many activations are kept."""
    fill = usual_group_size(request.sizes)
    return first_group_size(num_microbatches=request.sizes.num_microbatches, group=size or fill, fill=fill)


def _fastest(candidates: list[int | None], request: Request, schedule: str) -> int | None:
    """Return the group size with the shortest step where every stage takes the average time.

    Of long schedules, some of the candidates are simulated, spread evenly.
    """
    sizes = request.sizes
    most = max(2, _MOST_ACTIONS // (2 * sizes.num_cells * sizes.num_units))
    if len(candidates) > most:
        places = np.linspace(0, len(candidates) - 1, most).round().astype(int)
        candidates = [candidates[place] for place in places]
    network = request.network.split_sequence(sizes.sequence_splits)
    parts: list[Layer | EndBlock] = [network.head, *network.layers, network.tail]
    forward_ns, backward_ns = (
        np.full(sizes.num_cells, sum(times) // sizes.num_cells, dtype=np.int64)
        for times in ([part.forward_ns for part in parts], [part.backward_ns for part in parts])
    )
    durations = duration_table(forward_ns, backward_ns, np.zeros_like(forward_ns))

    def step_ns(size: int | None) -> int:
        order = make_schedule(schedule, **asdict(sizes), group_size=size)
        return run(build_graph(order), durations, request.communication).makespan_ns

    return min(candidates, key=step_ns)
