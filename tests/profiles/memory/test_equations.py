"""The equations of a peak, against the simulator's memory."""

from hypothesis import given
from hypothesis import strategies as st

from evenflow.model import NONE, EndBlock, Layer, LayerRun, Mode, Network
from evenflow.profiles.memory.equations import coefficients
from evenflow.simulate import simulate
from tests.profiles.memory.dry_runs import dry_run

SIZES = {"constant": 5, "parameter": 700, "full": 30, "none": 200, "head": 1100, "tail": 1300}


@given(st.lists(st.integers(1, 6), min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_the_terms_of_a_peak_are_those_of_the_simulated_memory(layers, random):
    full = [random.randint(0, count) for count in layers]
    modes = {kind: Mode(activation_bytes=SIZES[kind], backward_ns=20) for kind in (NONE, "full")}
    layer = Layer(name="layer", forward_ns=10, parameter_bytes=SIZES["parameter"], modes=modes)
    network = Network(
        name="net",
        runs=(LayerRun(layer=layer, count=sum(layers)),),
        head=EndBlock(parameter_bytes=SIZES["head"]),
        tail=EndBlock(parameter_bytes=SIZES["tail"]),
        constant_bytes=SIZES["constant"],
    )
    plan = dry_run(layers, full=full)
    unknowns = list(SIZES)
    peaks = [
        sum(count * SIZES[name] for count, name in zip(coefficients(plan, rank, unknowns), unknowns, strict=True))
        for rank in range(len(layers))
    ]
    assert peaks == list(simulate(network, plan).peak_memory_bytes)
