import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.model import Plan
from evenflow.profiles.init.init_network import network_of_fit
from evenflow.profiles.init.init_times import LayerTimes, PassTimes
from evenflow.profiles.layer_file import format_layer_file, parse_layer_file
from evenflow.profiles.memory.fit import MemoryFit, fit_memory
from evenflow.profiles.memory.peaks import DryRuns, Peak
from evenflow.simulate import simulate

LAYERS = (6, 5, 7, 4, 6, 8, 5, 7)
FULL, SELECT = (2, 0, 3, 1, 4, 2, 0, 3), (1, 3, 0, 2, 0, 1, 4, 1)
RUN = Plan(schedule="1f1b", num_microbatches=8, layers=(LAYERS,), recompute={"full": (FULL,), "select": (SELECT,)})
SIZES = {"constant": 900, "parameter": 400, "full": 30, "select": 500, "none": 700, "head": 50, "tail": 80}
"""In units of 10^6 bytes."""


def fit() -> MemoryFit:
    peaks = []
    for rank in range(8):
        none = LAYERS[rank] - FULL[rank] - SELECT[rank]
        live = 30 * FULL[rank] + 500 * SELECT[rank] + 700 * none
        peak = 900 + 400 * LAYERS[rank] + (8 - rank) * live + {0: 50, 7: 80}.get(rank, 0)
        peaks.append(Peak(round_index=0, rank=rank, peak_bytes=peak * 10**6))
    return fit_memory(DryRuns(rounds=(RUN,), peaks=tuple(peaks), place="peaks"))


def times(head: int, body: int, tail: int, *, backward: int | None = None) -> LayerTimes:
    return LayerTimes(
        head=PassTimes(name="Embedding", forward_ns=head, backward_ns=2 * head),
        body=PassTimes(name="Layer", forward_ns=body, backward_ns=2 * body if backward is None else backward),
        tail=PassTimes(name="Norm + Linear", forward_ns=tail, backward_ns=2 * tail),
    )


def test_memory_is_that_of_the_fit_and_times_have_the_default_coefficients():
    network = network_of_fit(fit(), times(1000, 5000, 700, backward=12_000), name="net")
    (run,) = network.runs
    assert (network.name, run.count, run.layer.name) == ("net", 48, "Layer")
    assert {kind: mode.activation_bytes for kind, mode in run.layer.modes.items()} == {
        "none": 700_000_000, "select": 500_000_000, "full": 30_000_000
    }  # fmt: skip
    # FORMATS of a layer file: 1.04 and 1.5 times the plain backward.
    assert {kind: mode.backward_ns for kind, mode in run.layer.modes.items()} == {
        "none": 12_000, "select": 12_480, "full": 18_000
    }  # fmt: skip
    assert (network.head.parameter_bytes, network.tail.parameter_bytes) == (50_000_000, 80_000_000)
    assert (network.constant_bytes, run.layer.parameter_bytes) == (900_000_000, 400_000_000)
    assert (network.head.name, network.head.backward_ns, network.tail.forward_ns) == ("Embedding", 2000, 700)


def test_the_simulated_peaks_of_a_dry_run_are_the_measured_ones():
    found = fit()
    simulation = simulate(network_of_fit(found, times(10, 50, 7), name="net"), RUN)
    assert simulation.peak_memory_bytes == pytest.approx([peak.peak_bytes for peak in found.dry_runs.peaks], abs=200)


@given(st.integers(0, 10**9), st.integers(1, 10**11), st.integers(0, 10**9))
def test_the_layer_file_reads_back_as_the_network(head, body, tail):
    network = network_of_fit(fit(), times(head, body, tail), name="net")
    text = format_layer_file(network)
    assert parse_layer_file(text, place="f.json") == network
    assert format_layer_file(parse_layer_file(text, place="f.json")) == text
