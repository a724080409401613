"""Alpa's published strategies: sizes that its authors state, and pricing of stages."""

import pytest

pytest.importorskip("torch")

import torch
from benchmarks.alpa import DATA, Published

from benchmarks import alpa, alpa_images

EVERY = alpa.CASES + alpa_images.CASES


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_published_stages_have_all_devices_and_layers(case: alpa.Case) -> None:
    nodes, width = case.mesh
    assert sum(stage.devices[0] * stage.devices[1] for stage in case.stages) == nodes * width
    if isinstance(case, alpa.GptCase):
        assert sum(stage.layers for stage in case.stages) == case.layers
    if isinstance(case, alpa_images.WideResNetCase):
        assert sum(stage.layers for stage in case.stages) == sum(case.groups)
        assert case.pictures % case.microbatches == 0


@pytest.mark.parametrize("case", alpa_images.CASES, ids=lambda case: case.name)
def test_wide_networks_have_the_parameters_of_their_names(case: alpa_images.WideResNetCase) -> None:
    with torch.device("meta"):
        model = case.model()
    billions = sum(parameter.numel() for parameter in model.parameters()) / 1e9
    number, unit = case.name.removeprefix("wide-")[:-1], case.name[-1]
    assert billions == pytest.approx(float(number) / (1000 if unit == "M" else 1), rel=0.1)


def test_a_small_wide_network_is_planned_no_longer_than_its_strategy() -> None:
    stages = (Published(1, (1, 2), (DATA,)), Published(1, (1, 2), None))
    case = alpa_images.WideResNetCase("small", (1, 4), 2, stages, 16, (1, 1), 8, 2)
    row = alpa.measure(case, time_limit_s=60)
    assert row.published_ns
    assert row.less_recomputed_ns
    assert row.step_ns
    assert row.step_ns <= row.less_recomputed_ns <= row.published_ns
    assert case.name in alpa.report([row])
