"""Plans, sizes and layouts for the check of Megatron-LM, and those that are spoiled on purpose."""

import random
from collections.abc import Iterator

from evenflow.model import Plan, has_whole_segments, segment_length
from evenflow.model.plan import Cells, cells

LAYOUTS = (
    "Et|(tt|)*30mL",
    "Et*4|(t*4|)*14tmL",
    "Et*2|(tt|)*5t|tmL",
    "Et*3|(tt|)*29,m|L",
    "E|(tt|)*2,(t|)*4,mL",
    "Et*5|t*5|t*6|t*6|t*6|t*5|t*5|t*5mL",
    "E(|tt)*30,|mL",
    "Et*2|(t*2|)*34,t*3|(t*2|)*3,tL",
    "E|*5t*3|L",
    "Et*1,2|tL",
    "|Et||tL|",
    "Et*0|(t|)*0,tL",
)
"""Layouts of recipes and documentation, and odd ones that Megatron-LM accepts."""
NO_LAYOUTS = (
    "Et*3|(tt|)*29",
    "E|(t|)*10m|m|m|LL|LL",
    "Et|((t|)*2t|)*3,L",
    "Et |tL",
    "Et|()*2L",
    "Et*|tL",
    "tE|tL",
    "Et|LtL",
    "Etm|tL",
    "Et|m|mL",
    "et|tl",
    "",
)
"""Texts that are no layouts."""
PARTS = ("t", "t*2", "t*3", "|", "(t|)*2", "(t*2|t|)*3", "|*2", ",")
LETTERS = "EtmL|*(),23"


TRAINED = (
    (
        "megatron-adapter",
        Plan(
            schedule="interleaved",
            num_microbatches=9,
            group_size=5,
            layers=((1, 2, 0, 2), (1, 1, 1, 1)),
            recompute={"full": ((1, 0, 0, 1), (0, 1, 0, 0)), "select": ((0, 1, 0, 1), (1, 0, 0, 0))},
        ),
    ),
    (
        "megatron",
        Plan(schedule="1f1b", num_microbatches=5, layers=((0, 3, 2, 1),), recompute={"full": ((0, 2, 2, 1),)}),
    ),
)
"""Plans to train with, under the names of their targets."""
GONE_ON_WITH = Plan(schedule="1f1b", num_microbatches=9, layers=((4, 5),), recompute={"full": ((1, 2),)})
"""A plan of the adapter under which a training with the first of these goes on."""


def layouts(source: random.Random) -> Iterator[str]:
    """Yield layouts and texts that look like some."""
    yield from (*LAYOUTS, *NO_LAYOUTS)
    for _number in range(2_000):
        middle = "".join(
            source.choice(("t", "t*2", "t*3", "|", "(t|)*2", "(t*2|t|)*3", "|*2", ",")) for _part in range(7)
        )
        yield f"E{middle}{source.choice(('', 'm', '|mm'))}L"
    for _number in range(2_000):
        yield f"E{''.join(source.choice(LETTERS) for _letter in range(source.randrange(9)))}L"


def cuts(source: random.Random) -> Iterator[dict[str, int | bool]]:
    """Yield fields of a configuration without a layout: equal cuts, with other numbers for the ends."""
    for _number in range(1_500):
        ranks, chunks = source.randrange(2, 6), source.choice((1, 1, 2, 3))
        fields: dict[str, int | bool] = {
            "num_layers": chunks * ranks * source.randrange(1, 4) + source.choice((0, 0, -1, 1, 2, 3)),
            "pipeline_model_parallel_size": ranks,
        }
        if chunks > 1:
            fields["virtual_pipeline_model_parallel_size"] = chunks
        if source.random() < 0.5:
            for end in source.choice((("first",), ("last",), ("first", "last"))):
                fields[f"num_layers_in_{end}_pipeline_stage"] = chunks * source.randrange(1, 4) + source.choice(
                    (0, 0, 1)
                )
        if source.random() < 0.5:
            for end in source.choice((("embedding",), ("loss",), ("embedding", "loss"))):
                fields[f"account_for_{end}_in_pipeline_split"] = True
        yield fields


def plan(source: random.Random, *, by_layer: bool) -> Plan:
    """Return a plan of any cut, whose recomputation Megatron-LM's flags can say, or its adapter alone."""
    ranks = source.choice((1, 2, 2, 3, 4))
    chunks = source.choice((1, 2, 3)) if ranks > 1 else 1
    layers = cells([[source.choice((0, 1, 1, 2, 2, 3, 4)) for _rank in range(ranks)] for _chunk in range(chunks)])
    if not any(map(any, layers)):
        layers = cells([[1] * ranks for _chunk in range(chunks)])
    count, group = microbatches(source, ranks, chunks)
    return Plan(
        schedule="interleaved" if chunks > 1 else "1f1b",
        num_microbatches=count,
        layers=layers,
        recompute=_by_layer(source, layers) if by_layer else _by_flags(source, layers),
        group_size=group,
    )


def microbatches(source: random.Random, ranks: int, chunks: int) -> tuple[int, int | None]:
    """Return a number of microbatches that Megatron-LM runs, with the size of their groups."""
    if chunks == 1:
        return source.randrange(1, 3 * ranks), None
    group = source.randrange(ranks, 3 * ranks)
    count = group * source.randrange(1, 4) + source.choice((0, *range(ranks, group)))
    return count, None if group == ranks else group


def _by_flags(source: random.Random, layers: Cells) -> dict[str, Cells]:
    kind = source.choice(("none", "full", "full", "select", "segment2", "segment3"))
    if kind == "none":
        return {}
    length = segment_length(kind) or 1
    if kind != "full" and has_whole_segments(layers, (length,)):
        return {kind: layers}
    most = source.randrange(1, max(map(max, layers)) + 1)
    return {"full": cells([[min(most, count) for count in row] for row in layers])}


def _by_layer(source: random.Random, layers: Cells) -> dict[str, Cells]:
    full = [[source.randrange(count + 1) for count in row] for row in layers]
    select = [
        [source.randrange(count - more + 1) for count, more in zip(*both, strict=True)]
        for both in zip(layers, full, strict=True)
    ]
    return {"full": cells(full), "select": cells(select)}
