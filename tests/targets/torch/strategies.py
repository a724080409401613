"""Hypothesis strategies: plans that torchtitan can run."""

from hypothesis import strategies as st

from evenflow.model import KNOWN_KINDS, Plan, cells, stage_table
from evenflow.schedule import FAMILIES
from evenflow.schedule.families import family_placement

FAMILY_NAMES = tuple(name for name in FAMILIES if name != "interleaved-remainder-last")
"""All but the one that refuses some numbers of microbatches."""


@st.composite
def plans(
    draw: st.DrawFn,
    *,
    kinds: tuple[str, ...] = KNOWN_KINDS,
    families: tuple[str, ...] = FAMILY_NAMES,
    min_ranks: int = 2,
) -> Plan:
    """Uneven plans of any family with layers under `kinds`; only the first and the last stage may have no layer."""
    family = draw(st.sampled_from(families))
    num_ranks = draw(st.integers(min_ranks, 4))
    num_chunks = FAMILIES[family].num_chunks or draw(st.integers(FAMILIES[family].fewest_chunks, 3))
    table = stage_table(
        family_placement(family, num_ranks=num_ranks, num_chunks=num_chunks), num_ranks=num_ranks
    ).tolist()
    ends = (0, num_ranks * num_chunks - 1)
    layers = [[draw(st.integers(0 if stage in ends else 1, 4)) for stage in row] for row in table]
    left = [list(row) for row in layers]
    recompute = {}
    for kind in kinds:
        chosen = [[draw(st.integers(0, most)) for most in row] for row in left]
        left = [[most - count for most, count in zip(*rows, strict=True)] for rows in zip(left, chosen, strict=True)]
        recompute[kind] = cells(chosen)
    if sum(map(sum, layers)) == 0:
        layers[0][0] = 1
    return Plan(
        schedule=family,
        num_microbatches=draw(st.integers(1, 9)),
        layers=cells(layers),
        recompute={kind: table for kind, table in recompute.items() if any(map(any, table))},
    )
