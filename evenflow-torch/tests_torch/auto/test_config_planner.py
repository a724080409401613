"""Two-level plans from a configuration: the same plan as from the model, and what is refused."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from evenflow import auto  # noqa: E402
from evenflow.cluster import A100  # noqa: E402
from evenflow.cluster.cluster import Cluster, Link  # noqa: E402
from evenflow.errors import InputError  # noqa: E402
from evenflow.predict.training import Sharding  # noqa: E402
from evenflow_torch.auto.degrees import plan_degrees  # noqa: E402
from evenflow_torch.auto.sharding.overlap import Overlap  # noqa: E402
from evenflow_torch.auto.stages.meshes_tried import has_plain_way  # noqa: E402
from evenflow_torch.auto.stages.request import TwoLevelRequest  # noqa: E402
from tests.networks import SMALL_LLAMA  # noqa: E402

CONFIG = SMALL_LLAMA | {"num_hidden_layers": 2}
LINK = Link(bytes_per_s=10**10, latency_ns=5000)
PAIR = Cluster(num_nodes=1, devices_per_node=2, memory_bytes=2**30, intra=LINK, inter=LINK)


def planned(**options: object) -> auto.AutoPlan:
    return auto.plan_config(CONFIG, PAIR, sequence=64, num_microbatches=4, **{"time_limit_s": 20, **options})


def test_every_parameter_is_placed_once_and_costs_what_the_optimizer_keeps() -> None:
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**CONFIG))
    found = planned(dtype="float32", optimizer="sgd", name="small")
    assert (found.row.name, found.num_microbatches) == ("small", 4)
    placed = [name for stage in found.stages for name in stage.placements]
    assert sorted(placed) == sorted(name for name, _ in model.named_parameters())
    network = found.simulation.network
    held = sum(layer.parameter_bytes for layer in network.layers)
    held += network.head.parameter_bytes + network.tail.parameter_bytes
    assert held == 8 * model.num_parameters()
    assert found.notes == (A100.origin(["float32"]), Overlap().note())
    assert "19.5 TFLOPS float32 in large" in found.notes[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"efficiency": 0.0}, "efficiency must be a share above 0 and at most 1, got 0.0"),
        (
            {"dtype": "float64"},
            "dtype must be a number format that a100-80 has a rate for: .*bfloat16",
        ),
        ({"dtype": "int8"}, "dtype must be one of bf16"),
        ({"optimizer": "lion"}, "optimizer"),
        ({"accelerator": "h101"}, "h100"),
    ],
)
def test_what_cannot_be_planned_for_is_refused_before_the_model_is_built(options, message) -> None:
    with pytest.raises(InputError, match=message):
        planned(**options)


@pytest.mark.parametrize(
    ("fixed", "exists"),
    [
        (auto.Fixed(tensor=2, data=1, context=1, expert=1, pipeline=1, zero=Sharding.NOTHING), True),
        (auto.Fixed(tensor=1, data=2, context=1, expert=1, pipeline=1, zero=Sharding.PARAMETERS), True),
        (auto.Fixed(tensor=1, data=1, context=2, expert=1, pipeline=1, zero=Sharding.OPTIMIZER), True),
        (auto.Fixed(tensor=1, data=1, context=1, expert=1, pipeline=2, zero=Sharding.NOTHING), True),
        (auto.Fixed(tensor=1, data=2, context=1, expert=2, pipeline=1, zero=Sharding.NOTHING), False),
        (auto.Fixed(tensor=2, data=1, context=2, expert=1, pipeline=1, zero=Sharding.NOTHING), False),
    ],
)
def test_plain_plans_with_degrees_exist_where_it_is_said_without_a_trace(fixed, exists) -> None:
    request = TwoLevelRequest(cluster=PAIR, fixed=fixed)
    assert has_plain_way(request, has_experts=False) is exists
    if not exists:
        with pytest.raises(InputError, match="the degrees"):
            planned(fixed=fixed, microbatch=2, only_plain=True)
        return
    found = planned(fixed=fixed, microbatch=2, only_plain=True, time_limit_s=6)
    assert not list(found.provider.solved_programs())
    degrees = plan_degrees(found.stages)
    assert not isinstance(degrees, str)
    assert (degrees.degrees.tensor, degrees.degrees.context, degrees.degrees.pipeline) == (
        fixed.tensor,
        fixed.context,
        fixed.pipeline,
    )
