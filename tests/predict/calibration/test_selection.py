"""What is fitted, and what is said of the rest."""

import numpy as np
import pytest

from evenflow.predict.calibration.selection import correlations, select
from evenflow.predict.calibration.tunable import TUNABLES

PRODUCT, LAUNCH, NETWORK = (TUNABLES[name] for name in ("product_share", "operator_ns", "network_share"))


def chosen(slopes, scale=0.05):
    kept, reasons = select(np.array(slopes, dtype=float), [PRODUCT, LAUNCH, NETWORK], scale)
    return kept, reasons


def test_what_the_runs_determine_is_kept() -> None:
    rows = [[-1, 0.0, 0], [-0.9, 0.1, 0], [0, 1, 0], [-0.5, 0.2, -0.5], [-0.2, 0, -0.7]]
    assert chosen(rows) == ([0, 1, 2], {})


def test_what_no_run_depends_on_is_not_fitted() -> None:
    kept, reasons = chosen([[-1, 0.5, 0], [-0.5, 0.9, 0], [-0.1, 0.9, 0]])
    assert kept == [0, 1]
    assert reasons == {2: "no run waits for transfers between nodes"}


def test_what_cannot_be_told_from_others_is_not_fitted() -> None:
    kept, reasons = chosen([[-1, 1.0, 0], [-0.5, 0.5, 0], [-0.1, 0.1, 0], [-0.3, 0.3, 0]])
    assert kept == [0]
    assert reasons[1] == "it changes all runs in the same way as product_share, so the runs cannot tell them apart"


def test_runs_of_one_shape_determine_one_parameter() -> None:
    kept, reasons = chosen([[-0.6, 0.3, -0.1]] * 6)
    assert kept == [0]
    assert reasons[1] == reasons[2] == "all runs have the same shape, which determines only product_share"


@pytest.mark.parametrize(("count", "most"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)])
def test_few_runs_determine_few_parameters_and_the_important_ones_first(count, most) -> None:
    rows = [[-1, 0.1, 0], [0.1, 1, 0.1], [0, 0, -1], [-1, 0, 0], [0, 1, 0]][:count]
    kept, reasons = chosen(rows, scale=0.001)
    assert kept == list(range(most)) or count < 3
    assert len(kept) <= most
    assert all("so few runs" in reasons[index] or "no run" in reasons[index] for index in reasons)


def test_what_the_scatter_hides_is_left_open() -> None:
    kept, reasons = chosen([[-1, 0.0, -0.03], [-1, 0.0, 0.0], [-1, 0.0, -0.05], [-1, 0.0, -0.02]], scale=0.05)
    assert kept == [0]
    assert "the runs determine it only within" in reasons[2]
    assert chosen([[-1, 0.0, -0.03], [-1, 0.0, 0.0], [-1, 0.0, -0.05], [-1, 0.0, -0.02]], scale=0.01)[0] == [0, 2]


def test_correlations_are_those_of_the_covariance() -> None:
    assert correlations(["a", "b"], np.array([[4.0, -3.0], [-3.0, 9.0]])) == {("a", "b"): -0.5}
