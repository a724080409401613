"""Models of pictures on several devices, on real processes: losses and gradients are those of one process."""

from functools import partial

import pytest
import torch

from evenflow import auto
from evenflow.model import Plan
from tests.cluster.accelerators import plain_accelerator
from tests_torch.run.cases import Answer, run_group
from tests_torch.run.mesh.image_models import SAMPLES, SIDE, image_case, residual_network, transformer
from tests_torch.run.mesh.mesh_models import cluster

pytestmark = pytest.mark.processes

TOLERANCE = 1e-11
ONE_STAGE = Plan(schedule="1f1b", num_microbatches=2, layers=((4,),))


def cases(num_devices: int) -> dict[str, partial[Answer]]:
    found = auto.plan(
        transformer(),
        torch.empty(SAMPLES, 3, SIDE, SIDE, dtype=torch.float64, device="meta"),
        cluster(num_devices),
        num_microbatches=2,
        accelerator=plain_accelerator(flops_per_s=1e8, memory_bytes_per_s=1e9),
    )
    return {
        "transformer, data parallel": partial(image_case, "transformer", ONE_STAGE, None, num_devices=num_devices),
        "residual network": partial(image_case, "residual network", ONE_STAGE, None, num_devices=num_devices),
        "transformer, planned": partial(image_case, "transformer", found.simulation.plan, found.mesh_plan),
    }


@pytest.mark.parametrize("num_devices", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_losses_and_gradients_are_those_of_one_process(num_devices: int) -> None:
    answers = run_group(cases(num_devices), num_devices)
    for name, answer in ((name, one) for name, case in answers.items() for one in case):
        assert not answer.trouble, f"{name}: {answer.trouble}"
        assert answer.error <= TOLERANCE, name
        assert answer.loss_error is None or answer.loss_error <= TOLERANCE, name
    names = {name for name, _ in residual_network().named_parameters()}
    assert names == {name for answer in answers["residual network"] for name in answer.names}
