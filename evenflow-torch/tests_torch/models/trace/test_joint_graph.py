from collections import Counter
from collections.abc import Iterable

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

from evenflow.cluster import Dtype, OperatorCost  # noqa: E402
from evenflow.fields import as_fields  # noqa: E402
from evenflow_torch.models.live_storage import StorageLog  # noqa: E402
from evenflow_torch.models.part_trace import trace  # noqa: E402
from evenflow_torch.models.trace.capture import capture  # noqa: E402
from evenflow_torch.models.trace.layer_stack import differentiable  # noqa: E402
from evenflow_torch.models.trace.operator_graph import Role  # noqa: E402
from evenflow_torch.models.training_row import read_decoder  # noqa: E402
from tests.networks import SMALL_LLAMA  # noqa: E402


class _Attention(nn.Module):
    def __init__(self, *, causal: bool) -> None:
        super().__init__()
        self.heads = nn.Linear(16, 16)
        self.causal = causal

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        query = self.heads(hidden).unflatten(-1, (4, 4)).transpose(1, 2)
        return scaled_dot_product_attention(query, query, query, is_causal=self.causal)


@pytest.mark.parametrize("causal", [False, True])
def test_a_trace_counts_the_operations_that_a_run_counts(causal: bool) -> None:
    module, hidden = _Attention(causal=causal), torch.zeros(2, 8, 16, requires_grad=True)
    traced = [(one.target, one.cost.flops) for one in capture(module, hidden).operators if one.cost.flops]
    with StorageLog() as log:
        module(hidden).sum().backward()
    assert sorted(traced) == sorted((one.name, one.cost.flops) for one in log.operators if one.cost.flops)
    products = 2 * 4 * 8 * 8 * 4 * 2 // (2 if causal else 1)
    assert sorted(flops for name, flops in traced if "attention" in name) == [2 * products, 5 * products]


CONFIGS = {
    "llama": {"attention_dropout": 0.1},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_operators_cost_what_those_of_a_profile_cost(kind: str) -> None:
    config = as_fields({**SMALL_LLAMA, "model_type": kind, **CONFIGS[kind]}, file=kind)
    row = read_decoder(config, sequence=32, microbatch=2, dtype=Dtype.BFLOAT16)
    for part in (*row.head, row.body[0], *row.tail):
        profiled = trace(part, "none")
        graph = capture(part.module, differentiable(part.inputs), part.named_inputs)
        for backward, operators in ((False, profiled.forward), (True, profiled.backward)):
            # Gradients are added to those of earlier microbatches where they are summed, and not in the graph.
            expected = [one.cost for one in operators if not (backward and one.name == "aten.add_.Tensor")]
            found = [one.cost for one in graph.operators if one.role is Role.COMPUTE and one.backward == backward]
            assert _works(found) == _works(expected), part.name


def _works(costs: Iterable[OperatorCost]) -> Counter[object]:
    """All that times follow from, of what takes time at all."""
    return Counter(_work(one) for one in costs if one.launches)


def _work(cost: OperatorCost) -> object:
    return cost.flops, cost.moved_bytes, cost.dtype, cost.depth, cost.is_fused_attention
