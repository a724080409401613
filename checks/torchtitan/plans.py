"""Plans that the check writes: random ones of every family, uneven, with orders of their own, always the same."""

import random
from collections.abc import Iterator, Sequence

from evenflow.model import Plan, cells, stage_table
from evenflow.schedule import FAMILIES, Op, make_schedule, order_lines
from evenflow.schedule.families import family_placement
from evenflow.schedule.schedule import Schedule

COUNT = 220


def all_plans(*, kinds: Sequence[str], ends: int, is_by_layer: bool) -> Iterator[tuple[str, Plan]]:
    """Yield names and plans; both ends of the network have at least `ends` layers.

    With `is_by_layer` layers are under any of `kinds`; otherwise all of them are under one, or none is.
    """
    names = [name for name in FAMILIES if name != "interleaved-remainder-last"]
    for index in range(COUNT):
        rng = random.Random(index)
        family = names[index % len(names)]
        yield f"{index:03}-{family}", _plan(rng, family, kinds, ends=ends, is_by_layer=is_by_layer)


def _plan(rng: random.Random, family: str, kinds: Sequence[str], *, ends: int, is_by_layer: bool) -> Plan:
    ranks = rng.randint(2, 5)
    chunks = FAMILIES[family].num_chunks or rng.randint(FAMILIES[family].fewest_chunks, 4)
    table = stage_table(family_placement(family, num_ranks=ranks, num_chunks=chunks), num_ranks=ranks).tolist()
    outer = (0, ranks * chunks - 1)
    layers = [[rng.randint(ends if stage in outer else 1, 4) for stage in row] for row in table]
    if not sum(map(sum, layers)):
        layers[0][0] = 1
    recompute: dict[str, list[list[int]]] = {}
    if is_by_layer:
        left = [list(row) for row in layers]
        for kind in kinds:
            recompute[kind] = [[rng.randint(0, most) for most in row] for row in left]
            left = [
                [most - used for most, used in zip(*rows, strict=True)]
                for rows in zip(left, recompute[kind], strict=True)
            ]
    elif kind := rng.choice((None, *kinds)):
        recompute[kind] = layers
    microbatches = rng.randint(ranks, 3 * ranks)
    schedule = make_schedule(family, num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches)
    order = order_lines(_later_weights(schedule)) if schedule.splits_backward and rng.random() < 0.3 else ()
    return Plan(
        schedule="own" if order else family,
        num_microbatches=microbatches,
        layers=cells(layers),
        recompute={kind: cells(rows) for kind, rows in recompute.items()},
        order=order,
    )


def _later_weights(schedule: Schedule) -> Schedule:
    """Return the same order with all weight gradients at the end of their rank, which no family has."""
    orders = []
    for rank in range(schedule.num_ranks):
        actions = schedule.order(rank)
        orders.append([each for each in actions if each.op != Op.W] + [each for each in actions if each.op == Op.W])
    return Schedule.from_actions(
        name="own",
        num_stages=schedule.num_stages,
        num_microbatches=schedule.num_microbatches,
        stage_ranks=schedule.stage_ranks,
        orders=orders,
    )
