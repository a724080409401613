"""Layers that stay together, and rules for the stages that hold layers, against every plan that keeps to them."""

from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import LayerRun, Network, StageRule, blocks_of
from evenflow.simulate import simulate
from evenflow.solve import Status, plan
from evenflow.solve.memory.least_memory import least_memory
from evenflow.solve.search.annealing import Annealing
from evenflow.solve.search.dealing import dealt
from evenflow.solve.start import even_start
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND, alone_together, plain_network
from tests.solve.cases import NO_SHRINKING, SECONDS, TOLERANCE, cases
from tests.solve.exhaustive import Case, every_plan
from tests.thoroughness import examples


@dataclass(frozen=True, kw_only=True)
class RuledCase(Case):
    """A case of which only the cuts count that keep to the rules of its layers."""

    def cuts(self) -> list[tuple[int, ...]]:
        return [cut for cut in super().cuts() if self.keeps(cut)]

    def keeps(self, cut: tuple[int, ...]) -> bool:
        """The rules once more, layer by layer."""
        layers = self.network.layers
        table = self.schedule.stage_table
        for stage, (start, end) in enumerate(pairwise(cut)):
            (chunk,), (rank,) = np.where(table == stage)
            own = layers[start:end]
            if own and not own[0].cut_before:
                return False
            for layer in own:
                rules = layer.stage_rules
                if StageRule.NOT_FIRST_RANK in rules and rank == 0:
                    return False
                if StageRule.LAST_RANK in rules and rank != self.sizes.num_ranks - 1:
                    return False
                if StageRule.LAST_CHUNK in rules and chunk != len(table) - 1:
                    return False
                if StageRule.LAST_STAGE in rules and stage != table.size - 1:
                    return False
                if StageRule.ALONE in rules and sum(other.cut_before for other in own) > 1:
                    return False
        return True


@dataclass(frozen=True, kw_only=True)
class JoinedCase(RuledCase):
    """A case with blocks as layers."""

    whole: RuledCase

    @property
    def split(self) -> Network:
        """Layers are split one by one, each rounded, before blocks are made of them."""
        blocks = blocks_of(self.whole.split)
        assert blocks is not None
        return blocks.network


@st.composite
def ruled(draw: st.DrawFn, **settings_: object) -> RuledCase:
    """Any case, some of whose layers have rules; at least one cut keeps to them."""
    case = draw(cases(**settings_))
    layers = list(case.network.layers)
    glued = draw(st.lists(st.integers(1, max(1, len(layers) - 1)), max_size=3))
    for place in glued:
        if place < len(layers):
            layers[place] = replace(layers[place], cut_before=False)
    if draw(st.booleans()):
        # Rules of ends are those that models have: the last layers, which predict further tokens.
        count = draw(st.integers(1, min(2, len(layers))))
        rules = frozenset(draw(st.lists(st.sampled_from(StageRule), min_size=1, max_size=2)))
        layers[-count:] = [replace(layer, stage_rules=rules) for layer in layers[-count:]]
    else:
        place = draw(st.integers(0, len(layers) - 1))
        rules = frozenset({draw(st.sampled_from(StageRule))})
        layers[place] = replace(layers[place], stage_rules=rules)
    network = replace(case.network, runs=tuple(LayerRun(layer=layer, count=1) for layer in alone_together(layers)))
    fields = {name: getattr(case, name) for name in Case.__dataclass_fields__}
    own = RuledCase(**{**fields, "network": network})
    assume(own.cuts())
    return own


def of_blocks(case: RuledCase) -> Case:
    """The same case with blocks as layers, whose plans recompute the layers of a block alike."""
    blocks = blocks_of(case.network)
    if blocks is None:
        return case
    fields = {name: getattr(case, name) for name in Case.__dataclass_fields__}
    return JoinedCase(**{**fields, "network": blocks.network}, whole=case)


@given(data=st.data())
@settings(max_examples=examples(30), phases=NO_SHRINKING)
def test_the_plan_is_the_best_of_all_that_keep_to_the_rules(data):
    case = data.draw(ruled(time=MILLISECOND, memory=MEGABYTE + 7, any_order=False))
    joined = of_blocks(case)
    num_blocks = joined.network.num_layers
    assume(case.allow_empty or num_blocks >= case.sizes.num_cells)
    assume(joined.cuts())
    plans = every_plan(joined)
    limit = data.draw(st.sampled_from([None, *plans.limits(), max(1, plans.least_bytes - 1)]))
    best = plans.best_ns(limit)
    outcome = plan(case.network, memory_limit_bytes=limit, time_limit_s=SECONDS, **case.arguments)
    event(f"blocks: {joined is not case}")
    if best is None:
        assert outcome.infeasibility.smallest_limit_bytes == plans.least_bytes
        return
    assert outcome.status is Status.OPTIMAL
    assert best <= outcome.makespan_ns <= best * (1 + TOLERANCE)
    assert best * (1 - 2 * TOLERANCE) <= outcome.lower_bound_ns <= best
    borders = np.zeros(case.sizes.num_cells, dtype=int)
    borders[case.schedule.stage_table] = outcome.plan.layers
    assert case.keeps((0, *np.cumsum(borders).tolist()))


@given(data=st.data(), seed=st.integers(0, 1000))
@settings(max_examples=examples(30), deadline=None)
def test_every_part_of_the_search_keeps_to_the_rules(data, seed):
    case = data.draw(ruled())
    joined = of_blocks(case)
    assume(joined.cuts())
    assume(case.allow_empty or joined.network.num_layers >= case.sizes.num_cells)
    plans = every_plan(joined)
    problem = case.problem(data.draw(st.sampled_from(plans.limits())))

    def keeps(counts):
        return problem.placement is None or problem.placement.allows_all(
            np.concatenate(([0], np.cumsum(counts.sum(axis=1))))
        )

    assert keeps(even_start(problem))
    first = dealt(problem)
    assert first is None or keeps(first)
    least = least_memory(problem, seconds=30)
    assert least.peak_bytes == plans.least_bytes
    search = Annealing(problem=problem, counts=least.counts.copy(), seed=seed)
    rounds = iter([False, False, True])
    search.run(stop=lambda: next(rounds))
    makespan, found = search.incumbent
    assert keeps(found)
    assert makespan in plans.makespans_ns


@given(case=cases(time=MILLISECOND), data=st.data())
@settings(max_examples=examples(30))
def test_halves_with_cuts_at_whole_blocks_cost_what_the_whole_costs(case, data):
    """To the nanosecond and the byte, whatever the plan. Halves of a part of a sequence are rounded each by itself."""
    assume(case.sizes.sequence_splits == 1)
    halves = tuple(half for layer in case.network.layers for half in _halves(layer))
    network = replace(case.network, runs=tuple(LayerRun(layer=half, count=1) for half in halves))
    whole = case.problem()
    parted = replace(case, network=network).problem()
    assert parted.num_layers == whole.num_layers
    cut = data.draw(st.sampled_from(case.cuts()))
    counts = np.zeros((case.sizes.num_cells, len(whole.kinds)), dtype=np.int64)
    for cell, (start, end) in enumerate(pairwise(cut)):
        kind = data.draw(st.integers(0, len(whole.kinds) - 1))
        counts[cell, kind] = end - start
    first, second = whole.costs(counts), parted.costs(counts)
    assert (first.durations == second.durations).all()
    in_layers = parted.simulate(counts)
    assert in_layers.makespan_ns == whole.simulate(counts).makespan_ns
    assert in_layers.peak_memory_bytes == whole.simulate(counts).peak_memory_bytes
    assert (parted.counts(in_layers.plan) == counts).all()


def _halves(layer):
    """Two layers that cost what `layer` does, of which the second may not begin a stage."""
    first = replace(
        layer,
        name="attention",
        forward_ns=layer.forward_ns // 3,
        parameter_bytes=layer.parameter_bytes // 3,
        stated_weight_ns=layer.weight_ns // 3,
        stated_until_weight_bytes=layer.until_weight_bytes // 3,
        modes={
            kind: replace(mode, activation_bytes=mode.activation_bytes // 3, backward_ns=mode.backward_ns // 3)
            for kind, mode in layer.modes.items()
        },
    )
    second = replace(
        layer,
        name="mlp",
        cut_before=False,
        forward_ns=layer.forward_ns - first.forward_ns,
        parameter_bytes=layer.parameter_bytes - first.parameter_bytes,
        stated_weight_ns=layer.weight_ns - first.weight_ns,
        stated_until_weight_bytes=layer.until_weight_bytes - first.until_weight_bytes,
        modes={
            kind: replace(
                mode,
                activation_bytes=mode.activation_bytes - first.modes[kind].activation_bytes,
                backward_ns=mode.backward_ns - first.modes[kind].backward_ns,
            )
            for kind, mode in layer.modes.items()
        },
    )
    return first, second


@given(case=cases(), data=st.data())
@settings(max_examples=examples(60))
def test_blocks_and_layers_are_counted_back_and_forth(case, data):
    layers = [
        replace(layer, cut_before=place == 0 or data.draw(st.booleans()))
        for place, layer in enumerate(case.network.layers)
    ]
    network = replace(case.network, runs=tuple(LayerRun(layer=layer, count=1) for layer in layers))
    blocks = blocks_of(network)
    if blocks is None:
        assert all(layer.cut_before for layer in layers)
        return
    number = blocks.network.num_layers
    cut = data.draw(st.sampled_from(list(combinations_with_replacement(range(number + 1), 2))))
    counts = np.diff([0, *cut, number])
    assert (blocks.of_layers(blocks.in_layers(counts)) == counts).all()
    parted = next((place for place, layer in enumerate(layers) if not layer.cut_before), None)
    assert blocks.of_layers(np.array([parted, len(layers) - parted])) is None


def _network(**rules: object) -> Network:
    network = plain_network(num_layers=6)
    *_, last = network.layers
    return replace(
        network,
        runs=(
            LayerRun(layer=network.layers[0], count=5),
            LayerRun(layer=replace(last, name="MTP", **rules), count=1),
        ),
    )


def test_what_no_cut_keeps_to_is_named():
    network = _network(stage_rules=frozenset({StageRule.NOT_FIRST_RANK}))
    with pytest.raises(InputError, match="MTP: must not be on rank 0"):
        plan(network, num_ranks=1, num_microbatches=2)
    alone = replace(
        plain_network(num_layers=6),
        runs=(LayerRun(layer=replace(plain_network(num_layers=6).layers[0], stage_rules=frozenset({StageRule.ALONE})),
                       count=6),),
    )  # fmt: skip
    with pytest.raises(InputError, match="must be the only body layer of its stage"):
        plan(alone, num_ranks=2, num_microbatches=2)


def test_a_layer_that_must_be_alone_and_may_not_begin_a_stage_is_refused():
    with pytest.raises(InputError, match=r"rules of layer MTP must not have 'alone'.* may not begin with MTP"):
        _network(stage_rules=frozenset({StageRule.ALONE}), cut_before=False)


def test_a_plan_that_breaks_a_rule_is_not_simulated():
    free, bound = _network(), _network(stage_rules=frozenset({StageRule.ALONE}))
    broken = plan(free, num_ranks=2, num_microbatches=4).plan
    with pytest.raises(InputError, match=r"layer 5 \(MTP\) must be the only body layer of its stage"):
        simulate(bound, broken)
    together = _network(cut_before=False)
    with pytest.raises(InputError, match="must be in the stage of the layer before it"):
        simulate(together, plan(bound, num_ranks=2, num_microbatches=4).plan)
