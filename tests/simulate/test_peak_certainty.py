"""The probability that a plan of fitted memory fits: what its peaks consist of, and whether so many do fit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.baselines.even_plan import even_plan
from evenflow.errors import InputError
from evenflow.model import BOTH, NONE, EndBlock, Layer, LayerRun, Mode, Network
from evenflow.model.peak_error import PeakError
from evenflow.profiles.layer_file import format_layer_file, parse_layer_file
from evenflow.profiles.memory.fit import fit_memory
from evenflow.profiles.memory.least_squares import solve
from evenflow.simulate import Simulation, simulate
from evenflow.simulate.peak_certainty import fit_probability, margin_bytes, peak_terms
from evenflow.units import MEGABYTE
from tests.profiles.memory.dry_runs import dry_run, measured
from tests.strategies import FamilySizes, sizes
from tests.thoroughness import examples

TERMS = ("constant", "parameter", BOTH, NONE, "head", "tail")
VALUES = {"constant": 700, "parameter": 90, BOTH: 11, NONE: 31, "head": 500, "tail": 800}

FIRST = dry_run([6, 5, 7, 4, 6, 8, 5, 7], both=[2, 0, 3, 1, 4, 2, 0, 3])
SECOND = dry_run([6, 8, 4, 7, 5, 6, 8, 6], both=[1, 5, 0, 4, 2, 0, 6, 2])
RUNS = measured([FIRST, SECOND], {term: value * MEGABYTE for term, value in VALUES.items()})


def network(values: dict[str, int], *, layers: int = 8, error: PeakError | None = None) -> Network:
    modes = {kind: Mode(activation_bytes=values[kind] * MEGABYTE, backward_ns=20) for kind in (NONE, BOTH)}
    layer = Layer(name="layer", forward_ns=10, parameter_bytes=values["parameter"] * MEGABYTE, modes=modes)
    head, tail = (EndBlock(forward_ns=1, parameter_bytes=values[end] * MEGABYTE) for end in ("head", "tail"))
    return Network(
        name="fitted", runs=(LayerRun(layer=layer, count=layers),), head=head, tail=tail,
        constant_bytes=values["constant"] * MEGABYTE, peak_error=error,
    )  # fmt: skip


def error_of(covariance: object, *, freedom: int = 8, megabytes: int = 50) -> PeakError:
    rows = tuple(tuple(map(float, row)) for row in np.array(covariance).tolist())
    return PeakError(
        standard_error_bytes=megabytes * MEGABYTE, degrees_of_freedom=freedom, terms=TERMS, covariance=rows
    )


def even(of: Network, shape: FamilySizes, *, recompute: str = NONE) -> Simulation:
    return simulate(of, even_plan(of, shape.sizes, schedule=shape.family, recompute=recompute))


@given(sizes(max_ranks=4), st.integers(0, 9), st.sampled_from([NONE, BOTH]))
def test_a_peak_is_the_sum_of_its_terms(shape: FamilySizes, more: int, recompute: str) -> None:
    """Of every family, whole backwards and split ones, sequences in parts or not."""
    of = network(VALUES, layers=shape.num_ranks * shape.num_chunks + more)
    simulation = even(of, shape, recompute=recompute)
    for rank, peak in enumerate(simulation.peak_memory_bytes):
        terms = peak_terms(simulation, rank)
        computed = sum(count * VALUES[term] * MEGABYTE for term, count in terms.items())
        assert peak == pytest.approx(computed, abs=64 * shape.num_microbatches * shape.num_chunks)  # rounded parts


def test_so_many_plans_fit_as_are_said_to() -> None:
    """Peaks with errors are fitted a thousand times; what is left free suffices as often as was asked."""
    matrix = RUNS.matrix(TERMS)
    solution = solve(matrix, RUNS.measured)
    weights = solution.weights
    error = error_of(weights @ weights.T, freedom=solution.degrees_of_freedom, megabytes=1)
    shape = FamilySizes(family="interleaved", num_ranks=4, num_chunks=2, num_microbatches=8, sequence_splits=1)
    simulation = even(network(VALUES, layers=16, error=error), shape)
    counts = np.array([[peak_terms(simulation, rank)[term] for term in TERMS] for rank in range(4)])
    random = np.random.default_rng(7)
    errors = random.standard_normal((4000, len(matrix)))
    scatter = np.sqrt(((errors - errors @ weights.T @ matrix.T) ** 2).sum(axis=1) / solution.degrees_of_freedom)
    wrong = random.standard_normal((4000, 4)) - errors @ weights.T @ counts.T
    for confidence in (0.5, 0.8, 0.95, 0.99):
        margin = margin_bytes(simulation, confidence) / MEGABYTE
        assert (wrong.max(axis=1) <= margin * scatter).mean() == pytest.approx(confidence, abs=0.03)


@given(st.floats(0.5, 0.995), st.integers(0, 12))
@settings(max_examples=examples(20))
def test_what_is_left_free_is_enough(confidence: float, freedom: int) -> None:
    error = error_of(np.diag([0.4, 0.1, 0.02, 0.02, 1, 1]), freedom=freedom)
    shape = FamilySizes(family="1f1b", num_ranks=3, num_chunks=1, num_microbatches=5, sequence_splits=1)
    simulation = even(network(VALUES, error=error), shape)
    highest = max(simulation.peak_memory_bytes)
    margin = margin_bytes(simulation, confidence)
    assert fit_probability(simulation, highest + margin) >= confidence
    assert fit_probability(simulation, highest + 2 * margin) >= fit_probability(simulation, highest + margin)
    assert fit_probability(simulation, min(simulation.peak_memory_bytes) - 100 * margin) < 0.01


def test_a_layer_file_carries_the_error() -> None:
    fit = fit_memory(RUNS)
    text = format_layer_file(network(VALUES, error=fit.peak_error))
    assert parse_layer_file(text, place="x").peak_error == fit.peak_error
    assert format_layer_file(parse_layer_file(text, place="x")) == text
    assert fit.peak_error.terms == tuple(estimate.name for estimate in fit.estimates)


@pytest.mark.parametrize("covariance", [((1.0,),), ((-1.0, 0.0), (0.0, 1.0))])
def test_a_covariance_that_is_none(covariance: tuple[tuple[float, ...], ...]) -> None:
    with pytest.raises(InputError, match="covariance must be square, with one row for each term"):
        PeakError(standard_error_bytes=1, degrees_of_freedom=1, terms=(NONE, BOTH), covariance=covariance)
