"""Layers of a plan are tried as they run: what torch cannot take apart is not planned."""

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from evenflow.cluster import Cluster, Link, Submesh
from evenflow.errors import InputError
from evenflow_torch.auto import Fixed, plan, trial
from evenflow_torch.auto.evaluate import OwnCut, evaluate_row
from evenflow_torch.auto.failed_trial import FailedTrial
from evenflow_torch.auto.placed_pipeline import PlacedPipeline
from evenflow_torch.auto.planner import AutoPlan
from evenflow_torch.auto.sharding.ways import MeshSharding
from evenflow_torch.auto.stages.request import TwoLevelRequest
from evenflow_torch.auto.stages.sharded_stages import ShardedStages
from evenflow_torch.auto.trial import first_fault
from evenflow_torch.models.parts import ModelRow
from evenflow_torch.models.rows import row_with_inputs
from tests.cluster.accelerators import plain_accelerator
from tests_torch.auto.fused_models import LENGTH, SAMPLES, WIDTH, View, as_method, as_operator, fused_model

EXAMPLE = torch.empty(SAMPLES, LENGTH, WIDTH, dtype=torch.float64, device="meta")
FOUR = Cluster(
    num_nodes=1,
    devices_per_node=4,
    memory_bytes=2**30,
    intra=Link(bytes_per_s=10**11),
    inter=Link(bytes_per_s=10**9),
)
ACCELERATOR = plain_accelerator(flops_per_s=1e8, memory_bytes_per_s=1e9)


def planned(view: View, fixed: Fixed | None = None) -> AutoPlan:
    return plan(fused_model(view), EXAMPLE, FOUR, num_microbatches=2, accelerator=ACCELERATOR, fixed=fixed)


TENSOR = Fixed(tensor=4)


def test_a_layer_that_runs_is_planned_as_it_is_asked_for() -> None:
    found = planned(as_method, TENSOR)
    assert found.pipeline is not None
    assert [stage.use.words for stage in found.stages] == ["tensor parallel over 4"]
    assert not [note for note in found.notes if "left out" in note]
    assert first_fault(found.pipeline, found.provider, found.row) is None


def test_degrees_under_which_a_layer_does_not_run_are_refused_with_torchs_reason() -> None:
    with pytest.raises(InputError, match=r"Fused.0 must be a sharding under which layers run \(RuntimeError: Cannot"):
        planned(as_operator, TENSOR)
    assert not dist.is_initialized(), "nothing is left of the devices that were not there"


def test_shardings_under_which_a_layer_does_not_run_are_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    free = planned(as_method)
    tried: list[tuple[Submesh, MeshSharding]] = []

    def at_fault(pipeline: PlacedPipeline, _provider: ShardedStages, _row: ModelRow) -> FailedTrial | None:
        stage = pipeline.stages[0]
        assert (stage.submesh, stage.sharding) not in tried, "left out"
        tried.append((stage.submesh, stage.sharding))
        fault = FailedTrial(submesh=stage.submesh, sharding=stage.sharding, words="split", layer="Fused.0", reason="no")
        return fault if len(tried) < 4 else None

    monkeypatch.setattr(trial, "first_fault", at_fault)
    found = planned(as_method)
    note = "split on {} devices was left out, since Fused.0 does not run so: no"
    assert list(found.notes[-3:]) == [note.format(submesh) for submesh, _ in tried[:3]]
    assert (found.stages[0].submesh, found.stages[0].sharding) == tried[-1]
    assert found.simulation.makespan_ns >= free.simulation.makespan_ns


@pytest.mark.parametrize(("view", "runs"), [(as_method, True), (as_operator, False)])
def test_a_plan_of_ones_own_is_priced_and_said_not_to_run(view: View, runs: bool) -> None:
    row = row_with_inputs(fused_model(view), EXAMPLE)
    request = TwoLevelRequest(cluster=FOUR, num_microbatches=2, accelerator=ACCELERATOR, fixed=Fixed(tensor=4, data=1))
    found = evaluate_row(row, request, OwnCut())
    assert found.pipeline is not None
    assert any(note.startswith("evenflow run cannot train this plan") for note in found.notes) != runs


def test_what_values_decide_is_not_tried() -> None:
    """Fake tensors have none; whether the layer runs shows on the devices."""

    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(WIDTH, WIDTH)

        def forward(self, hidden: Tensor) -> Tensor:
            if type(hidden) is not Tensor and hasattr(hidden, "placements"):
                hidden.to_local().sum().item()
            result: Tensor = self.layer(hidden)
            return result

    model = nn.Sequential(*(Counted() for _ in range(2))).double()
    found = plan(model, EXAMPLE, FOUR, num_microbatches=2, accelerator=ACCELERATOR, fixed=Fixed(data=4))
    assert found.pipeline is not None
