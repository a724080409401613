"""Layers without a backward, as those that are not trained, against every plan."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import Layer, LayerRun
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND
from tests.solve.cases import NO_SHRINKING, cases
from tests.solve.exhaustive import every_plan
from tests.solve.solved import assert_best
from tests.thoroughness import examples


def frozen(layer: Layer) -> Layer:
    """The layer where nothing up to it is trained: it keeps nothing, and there is nothing to compute again."""
    modes = {
        name: replace(mode, activation_bytes=0, backward_ns=0, working_bytes=0) for name, mode in layer.modes.items()
    }
    return replace(
        layer, modes=modes, parameter_bytes=layer.parameter_bytes // 9, stated_weight_ns=None,
        stated_until_weight_bytes=None,
    )  # fmt: skip


@given(data=st.data())
@settings(max_examples=examples(30), phases=NO_SHRINKING)
def test_the_plan_is_the_best_of_all(data):
    case = data.draw(cases(time=MILLISECOND, memory=MEGABYTE + 7, any_order=False))
    layers = case.network.layers
    count = data.draw(st.integers(1, len(layers)))
    some = [*map(frozen, layers[:count]), *layers[count:]]
    head = replace(
        case.network.head, backward_ns=0, activation_bytes=0, working_bytes=0, stated_weight_ns=None,
        stated_until_weight_bytes=None,
    )  # fmt: skip
    runs = tuple(LayerRun(layer=layer, count=1) for layer in some)
    case = replace(case, network=replace(case.network, runs=runs, head=head))
    plans = every_plan(case)
    limit = data.draw(st.sampled_from([None, *plans.limits()]))
    assert_best(case, limit, plans.best_ns(limit))
