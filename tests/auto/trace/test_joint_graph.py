import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

from evenflow.auto.trace.capture import capture  # noqa: E402
from evenflow.torch_model.live_storage import StorageLog  # noqa: E402


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
