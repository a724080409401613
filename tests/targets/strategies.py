"""Random plans that a framework can run, by its abilities."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from evenflow.model import FULL, KNOWN_KINDS, SELECT, Abilities, Empty, Plan, Scope
from evenflow.schedule import FAMILIES
from evenflow.targets.refusal import refusal


def canonical(plan: Plan) -> Plan:
    """Return the same plan in one form: no kinds without layers, `select` for the set of core attention alone, and no
    group size where it is the usual one.
    """
    return replace(
        plan,
        recompute={
            SELECT if kind == "core_attn" else kind: table
            for kind, table in plan.recompute.items()
            if any(map(any, table))
        },
        group_size=None if plan.group_size == plan.num_ranks else plan.group_size,
    )


@st.composite
def plans(draw: Any, abilities: Abilities) -> Plan:
    """A plan of a few ranks and chunks that keeps to `abilities`."""
    return draw(_any_plans(abilities).filter(lambda plan: refusal(plan, abilities, title="it") is None))


@st.composite
def _any_plans(draw: Any, abilities: Abilities) -> Plan:
    schedule = draw(st.sampled_from(abilities.schedules))
    family = FAMILIES[schedule]
    num_ranks = 1 if schedule == "1f1b-overlap" else draw(st.integers(min_value=2, max_value=5))  # as Megatron-LM
    num_chunks = family.num_chunks or draw(st.integers(min_value=family.fewest_chunks, max_value=3))
    fewest = 0 if abilities.empty is Empty.ANY else 1
    cell = st.integers(min_value=fewest, max_value=5)
    row = st.tuples(*[cell] * num_ranks)
    layers = draw(st.tuples(*[row] * num_chunks).filter(lambda rows: any(map(any, rows))))
    group = draw(st.none() | st.integers(min_value=num_ranks, max_value=9)) if family.has_groups else None
    num_microbatches = draw(st.integers(min_value=num_ranks, max_value=12))
    way = draw(st.sampled_from((None, *abilities.under(schedule).recomputation)))
    recompute = {}
    if way is not None:
        usual = [kind for kind in way.kinds if kind in KNOWN_KINDS]  # among thousands of sets of modules
        kind = draw(st.sampled_from(usual) | st.sampled_from(way.kinds))
        most = draw(st.integers(min_value=0, max_value=5)) if way.scope is Scope.COUNT else 5
        counts = [
            [
                draw(st.integers(min_value=0, max_value=count))
                if way.scope is Scope.LAYERS and kind == FULL
                else min(most, count)
                for count in row
            ]
            for row in layers
        ]
        recompute = {kind: tuple(map(tuple, counts))}
    releases = family.has_pairs and abilities.releases_attention and draw(st.booleans())
    delays = abilities.delays_weights and not releases and draw(st.booleans())
    return Plan(
        schedule=schedule,
        num_microbatches=num_microbatches,
        layers=layers,
        recompute=recompute,
        group_size=group,
        delays_weights=delays if family.has_pairs else None,
        releases_attention=releases,
    )
